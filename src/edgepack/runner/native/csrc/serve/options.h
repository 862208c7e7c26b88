// What the server was started with.
#pragma once
#include "program/options.h"

namespace embed {

struct ServeOptions : Options {
    std::string token;  // that requests must bear; empty: none
};

// Completes what the command line says. A code of 2 for what makes no sense, 3 for a token file that is none.
Error complete_options(ServeOptions &options);

}  // namespace embed
