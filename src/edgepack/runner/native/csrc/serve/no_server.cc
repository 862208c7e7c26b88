// In the place of the other files, in a program without a server.
#include "serve/server.h"

namespace embed {

Error serve(int, char **, const OpenBundle &, std::string &) {
    return fail(USAGE, "this program was built without a server", "build with --set serve=true; to embed the word: embed -- serve");
}

}  // namespace embed
