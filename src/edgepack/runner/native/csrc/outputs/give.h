// What a model gives of texts beside, or in the place of, one vector: sparse vectors, and vectors of tokens.
#pragma once
#include "embedder/bundle.h"
#include "program/options.h"

namespace embed {

// Writes what the options ask for; `done` false: the program goes on with whatever else they ask for. A code of 2 for what the
// bundle's model does not give.
Error give_outputs(const Options &options, const Bundle &bundle, bool &done);

}  // namespace embed
