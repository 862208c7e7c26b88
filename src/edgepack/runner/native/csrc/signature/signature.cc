// Whether a bundle is signed, whole.
#include "features/feature.h"
#include "signature/statement.h"

namespace embed {

namespace {

Error check(const Bundle &bundle, const std::string &key) {
    std::string content;
    if (Error error = read_file(bundle.directory + "/" + SIGNATURE, content, MOST_OF_SIGNATURE))
        return not_signed("there is no " + std::string(SIGNATURE));
    Json statement;
    if (Error error = open_signature(content, key, statement)) return error;
    if (Error error = check_manifest(bundle.manifest_digest, statement)) return error;
    // The manifest is what was signed, and so is what it lists.
    size_t files = 0;
    if (Error error = bundle.check_contents(files)) return error;
    return bundle.check_strangers(SIGNATURE);
}

}  // namespace

extern const Feature SIGNATURES_FEATURE = [] {
    Feature feature;
    feature.name = "signatures";
    feature.check_signature = check;
    return feature;
}();

}  // namespace embed
