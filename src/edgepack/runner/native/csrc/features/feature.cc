#include "features/feature.h"

namespace embed {

const Feature *find_feature(std::string_view name) {
    for (const Feature *const *each = FEATURES; *each; each++)
        if (name == (*each)->name) return *each;
    return nullptr;
}

Error check_signature(const Bundle &bundle, const std::string &key) {
    if (auto check = feature_with(&Feature::check_signature)) return check(bundle, key);
    return fail(USAGE, "this program cannot check signatures: it was built without", "--set signatures=true builds one that can");
}

}  // namespace embed
