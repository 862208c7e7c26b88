// What the bundle says of itself: --version, --info, --self-test and --bench.
#pragma once
#include <string>

#include "embedder/bundle.h"
#include "base/error.h"
#include "program/options.h"

namespace embed {

// The text to print.
Error about(const Options &options, const Bundle &bundle, std::string &text);
Error bench(const Options &options, const Bundle &bundle, Json &measured);
std::string bench_text(const Json &measured);
// The manifest, with the sizes of the parts in bytes instead of the list of files.
Json bundle_info(const Bundle &bundle);
// "1.2 MB" or "345.6 kB".
std::string megabytes(double size);

// Which provider really computes, on which device, and why it is another; nothing for a bundle that is for
// the processor.
void add_placement(const Placement *placed, Json &said);
// The vectors of the golden texts beside those that the build made: texts, min_cosine, tolerance. A code
// of 6.
Error compare_golden(const Bundle &bundle, const Embedder &embedder, Json &result);

Json json_number(double number, const char *form);
Json json_text(std::string text);

}  // namespace embed
