// In the place of library.cc, where the bundle's model makes one vector of a text.
#include "libembed/opened.h"

extern "C" {

int embed_outputs(const embed_bundle *bundle, const char *const *, const size_t *, size_t, float *, embed_rows *, embed_rows *, char *error,
                  size_t error_size) {
    std::string name = bundle->bundle.text("model", "name");
    return embed::answer(embed::fail(embed::USAGE, name + " makes one vector of a text: embed_texts gives it"), error, error_size);
}

void embed_free_rows(embed_rows *) {}

}  // extern "C"
