#include "features/feature.h"

#include <cstring>

namespace embed {

bool has_feature(const char *name) {
    for (const Feature *const *each = FEATURES; *each; each++)
        if (!strcmp(name, (*each)->name)) return true;
    return false;
}

Error check_signature(const Bundle &bundle, const std::string &key) {
    if (auto check = feature_with(&Feature::check_signature)) return check(bundle, key);
    return fail(USAGE, "this program cannot check signatures: it was built without",
                "--set signatures=true builds one that can");
}

}  // namespace embed
