#include "serve/options.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stream.h"
#include "program/reading.h"

namespace embed {

namespace {

constexpr size_t MAX_TOKEN = 4096, MAX_BODIES = 64000000;

// As browsers write one: no path, no capital letters.
bool is_origin(const std::string &word) {
    size_t colon = word.find("://");
    if (word == "*") return true;
    if (!colon || colon == std::string::npos || colon + 3 == word.size() ||
        word.find_first_of("/?#@*, \t", colon + 3) != std::string::npos)
        return false;
    return std::all_of(word.begin(), word.begin() + ptrdiff_t(colon),
                       [](unsigned char c) { return isalnum(c); }) &&
           std::none_of(word.begin(), word.end(), [](unsigned char c) { return isupper(c); });
}

Error sound_token(std::string content, const std::string &source, std::string &token) {
    constexpr const char *SPACE = " \t\n\r\v\f";
    size_t start = content.size() < MAX_TOKEN + 2 ? content.find_first_not_of(SPACE) : std::string::npos;
    token =
        start == std::string::npos ? "" : content.substr(start, content.find_last_not_of(SPACE) + 1 - start);
    bool printable = std::all_of(token.begin(), token.end(),
                                 [](unsigned char byte) { return byte >= 0x21 && byte <= 0x7E; });
    if (!token.empty() && token.size() <= MAX_TOKEN && printable) return {};
    return fail(INPUT, source + " holds no token: 1 to " + std::to_string(MAX_TOKEN) +
                           " printable ASCII characters without spaces");
}

// The token in a file, without the line's end.
Error read_token(const std::string &path, std::string &token) {
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string content(MAX_TOKEN + 2, '\0');
    struct stat status = {};
    size_t size = 0;
    ssize_t got = -1;
    if (file >= 0 && fstat(file, &status) == 0)
        while (size < content.size() && (got = read_some(file, &content[size], content.size() - size)) > 0)
            size += size_t(got);
    int failure = errno;
    if (file >= 0) close(file);
    if (got < 0) return fail(INPUT, "cannot read " + path + ": " + strerror(failure));
    content.resize(size);
    if (Error error = sound_token(content, path, token)) return error;
    char mode[8];
    snprintf(mode, sizeof mode, "%o", unsigned(status.st_mode & 0777));
    if (status.st_mode & 022)
        return fail(INPUT, path + " is writable by others (mode " + mode + ")", "chmod 600 " + path);
    if (status.st_uid && status.st_uid != geteuid())
        return fail(INPUT, path + " belongs to another user, who may change it",
                    "chown it to who runs the server");
    if (status.st_mode & 04)
        say("warning: " + path + " is readable by every user of this device (mode " + mode + ")\n");
    return {};
}

// From the file that is named, or the environment; empty: none.
Error find_token(const ServeOptions &options, std::string &token) {
    const char *path = getenv("EMBED_TOKEN_FILE"), *plain = getenv("EMBED_TOKEN");
    if (options.has_token_file) return read_token(options.token_file, token);
    if (path && plain) return fail(USAGE, "EMBED_TOKEN and EMBED_TOKEN_FILE are both set");
    if (path) return read_token(path, token);
    // One that is set to nothing is a mistake, which must not open the server.
    return plain ? sound_token(plain, "EMBED_TOKEN", token) : Error{};
}

}  // namespace

Error complete_options(ServeOptions &options) {
    for (const std::string &origin : options.origins)
        if (!is_origin(origin))
            return fail(USAGE, "--cors: " + quoted(origin) + " is not an origin, such as https://app.example",
                        "see embed serve --help");
    // Of a variable that was never set: every user of the machine may connect to a port.
    if (options.has_socket_path && options.socket_path.empty())
        return fail(USAGE, "--unix: the path is empty", "see embed serve --help");
    if (!options.max_bodies) options.max_bodies = std::max(MAX_BODIES, options.max_body);
    if (options.max_bodies < options.max_body)
        return fail(USAGE, "--max-bodies " + std::to_string(options.max_bodies) +
                               " is less than one request's --max-body");
    if (Error error = find_token(options, options.token)) return error;
    bool loopback = options.host == "127.0.0.1" || options.host == "::1" || options.host == "localhost";
    if (options.socket_path.empty() && !loopback && options.token.empty())
        return fail(
            USAGE, options.host + " is not a loopback address: anyone who can reach it could use this server",
            "require a token (--token-file, EMBED_TOKEN_FILE), or use --host 127.0.0.1");
    return {};
}

}  // namespace embed
