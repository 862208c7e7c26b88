// In the place of signature.cc, where a bundle's target did not ask for signatures.
#include "signature/signature.h"

namespace embed {

const char *const BUILT_FOR = nullptr;

Error check_signature(const Bundle &, const std::string &) {
    return fail(USAGE, "this program cannot check signatures: it was built without", "--set signatures=true builds one that can");
}

}  // namespace embed
