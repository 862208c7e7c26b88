// Whether this device's processor has what the bundle's runtime was made for: asked before the model is
// loaded.
#pragma once
#include "embedder/bundle.h"

namespace embed {

// A code of 5 for a processor that lacks an instruction set; the runtime would abort on it. Where Linux does
// not say what the processor has, the runtime is tried.
Error require_processor(const Bundle &bundle);

}  // namespace embed
