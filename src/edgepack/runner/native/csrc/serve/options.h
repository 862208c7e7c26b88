// The command line of `embed serve`, as the frozen program has it (runner/frozen/serve/options.py).
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace embed {

struct ServeOptions {
    std::string host = "127.0.0.1", socket_path, token_file, public_key, prefix, token;
    bool has_token_file = false, has_public_key = false, check = false, help = false, allow_cpu = false;
    std::vector<std::string> hosts, origins;  // of --allow-host and --cors
    size_t port = 8080, max_length = 0, batch_size = 0, threads = 0, window = 16;
    size_t queue = 2048, max_body = 4000000, max_bodies = 0, max_tokens = 300000, max_connections = 2048, timeout = 30, grace = 10;
    double wait = 2;  // milliseconds
};

// A code of 2 for what makes no sense, 3 for a token file that is none.
Error parse_serve_options(int count, char **words, ServeOptions &options);

}  // namespace embed
