// What a reranker or a classifier makes of texts: its last layer, on the vectors of the encoder.
#pragma once
#include "embedder/bundle.h"
#include "program/options.h"

namespace embed {

// Ranks or classifies, where the options say so; `done` false: the program goes on with whatever else they ask for. A code of 2
// for what the bundle's model is not made for.
Error score_texts(const Options &options, const Bundle &bundle, bool &done);

}  // namespace embed
