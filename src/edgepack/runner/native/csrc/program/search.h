// The texts that are nearest to a query, by the cosine of their vectors.
#pragma once
#include <string>

#include "base/error.h"
#include "embedder/bundle.h"
#include "program/options.h"

namespace embed {

// The text to print.
Error search(const Options &options, const Bundle &bundle, std::string &text);

}  // namespace embed
