// `embed serve`: the bundle's vectors over HTTP, on the loopback or a unix socket, as OpenAI's clients ask for them.
#pragma once
#include <functional>
#include <string>

#include "base/error.h"
#include "embedder/bundle.h"

namespace embed {

struct ServeOptions;

// Opens the bundle, and checks it with a public key where the user names one (null: none).
using OpenBundle = std::function<Error(const std::string *public_key, Bundle &bundle)>;

// Serves until told to stop. `help` gets the text to print instead, where that is asked for.
Error serve(int count, char **words, const OpenBundle &open, std::string &help);

}  // namespace embed
