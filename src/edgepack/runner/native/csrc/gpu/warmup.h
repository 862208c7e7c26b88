// Making a GPU ready: --warmup.
#pragma once
#include "embedder/bundle.h"
#include "program/options.h"

namespace embed {

// Runs every shape that matters, lets the provider save what it made, and compares the golden vectors. `done`
// false: it was not asked for, or the bundle is for the processor.
Error warm_up(const Options &options, const Bundle &bundle, bool &done);

}  // namespace embed
