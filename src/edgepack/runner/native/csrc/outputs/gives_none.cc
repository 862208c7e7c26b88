// In the place of give.cc, where the bundle's model makes one vector of a text.
#include "outputs/give.h"

namespace embed {

Error give_outputs(const Options &options, const Bundle &bundle, bool &) {
    if (options.outputs())
        return fail(USAGE, options.outputs() + (": " + bundle.text("model", "name") + " makes one vector of a text"),
                    "leave it out; SPLADE, ColBERT and BGE-M3 models give sparse vectors and vectors of tokens");
    if (options.output_format == "npz") return fail(USAGE, "--out npz requires --sparse or --multi-vector", "for vectors: --out npy");
    return {};
}

}  // namespace embed
