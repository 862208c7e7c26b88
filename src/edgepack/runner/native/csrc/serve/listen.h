// The socket that a server listens on.
#pragma once
#include <string>
#include <sys/types.h>

#include "base/error.h"
#include "serve/options.h"

namespace embed {

struct Listener {
    int descriptor = -1;
    // A unix socket's file: who gave the path to another server meanwhile keeps that one's.
    std::string path;
    dev_t device = 0;
    ino_t number = 0;
};
// A code of 8 where it cannot be had.
Error open_listener(const ServeOptions &options, Listener &listener);
// A second time it does nothing.
void close_listener(Listener &listener);
// E.g. http://127.0.0.1:8080, or unix:/run/embed.sock.
std::string address_of(int listener);
// A question that the server has an answer to, and what such an answer has in it.
struct Probe {
    const char *path, *body, *found;
};
// Asks it. A code of 5 when the answer is none.
Error ask_listener(int listener, const std::string &token, const Probe &probe);

}  // namespace embed
