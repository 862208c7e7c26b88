#include "serve/options.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/options.h"
#include "program/reading.h"

namespace embed {

namespace {

constexpr size_t MAX_TOKEN = 4096, MAX_BODIES = 64000000, LARGEST = 1 << 30, PORTS = 65535;

struct ServeOption {
    const char *name;
    std::string ServeOptions::*text = nullptr;
    size_t ServeOptions::*number = nullptr;
    size_t most = PORTS;
    bool ServeOptions::*given = nullptr;
    int values = 1;
};

constexpr ServeOption KNOWN_TO_SERVE[] = {
    {"--host", &ServeOptions::host},
    {"--port", nullptr, &ServeOptions::port},
    {"--unix", &ServeOptions::socket_path},
    {"--token-file", &ServeOptions::token_file, nullptr, 0, &ServeOptions::has_token_file},
    {"--require-signature", &ServeOptions::public_key, nullptr, 0, &ServeOptions::has_public_key},
    {"--allow-host"},
    {"--cors"},
    {"--check", nullptr, nullptr, 0, &ServeOptions::check, 0},
    {"--prefix", &ServeOptions::prefix},
    {"--max-length", nullptr, &ServeOptions::max_length},
    {"--batch-size", nullptr, &ServeOptions::batch_size},
    {"--threads", nullptr, &ServeOptions::threads},
    {"--allow-cpu", nullptr, nullptr, 0, &ServeOptions::allow_cpu, 0},
    {"--window", nullptr, &ServeOptions::window},
    {"--wait"},
    {"--queue", nullptr, &ServeOptions::queue},
    {"--max-body", nullptr, &ServeOptions::max_body, LARGEST},
    {"--max-bodies", nullptr, &ServeOptions::max_bodies, LARGEST},
    {"--max-tokens", nullptr, &ServeOptions::max_tokens, LARGEST},
    {"--max-connections", nullptr, &ServeOptions::max_connections},
    {"--timeout", nullptr, &ServeOptions::timeout},
    {"--grace", nullptr, &ServeOptions::grace},
    {"--debug", nullptr, nullptr, 0, nullptr, 0},
    {"--help", nullptr, nullptr, 0, &ServeOptions::help, 0},
    {"-h", nullptr, nullptr, 0, &ServeOptions::help, 0},
};

Error read_wait(const std::string &word, double &place) {
    char *end = nullptr;
    bool plain = !word.empty() && strspn(word.c_str(), "0123456789.+-eE") == word.size();
    place = plain ? strtod(word.c_str(), &end) : -1;
    if (plain && !*end && place >= 0 && place <= 1000) return {};
    return usage("argument --wait: " + quoted(word) + " is not a number of milliseconds from 0 to 1000");
}

// As browsers write one: no path, no capital letters.
bool is_origin(const std::string &word) {
    size_t colon = word.find("://");
    if (word == "*") return true;
    if (!colon || colon == std::string::npos || colon + 3 == word.size() || word.find_first_of("/?#@*, \t", colon + 3) != std::string::npos)
        return false;
    return std::all_of(word.begin(), word.begin() + ptrdiff_t(colon), [](unsigned char c) { return isalnum(c); }) &&
           std::none_of(word.begin(), word.end(), [](unsigned char c) { return isupper(c); });
}

class ServeGrammar final : public Grammar {
public:
    explicit ServeGrammar(ServeOptions &options) : options_(options) {}

    int values(const std::string &name) const override {
        const ServeOption *option = find(name);
        return option ? option->values : -1;
    }
    bool done() const override { return options_.help; }

    Error take(const std::string &name, const std::vector<std::string> &values) override {
        const ServeOption &option = *find(name);
        if (option.given) options_.*option.given = true;
        if (option.text) options_.*option.text = values[0];
        if (name == "--prefix") return check_choice(name, values[0], "query, passage");
        if (name == "--allow-host") options_.hosts.push_back(values[0]);
        if (name == "--wait") return read_wait(values[0], options_.wait);
        if (name == "--cors") {
            if (!is_origin(values[0])) return usage("argument --cors: " + quoted(values[0]) + " is not an origin, such as https://app.example");
            options_.origins.push_back(values[0]);
        }
        if (!option.number) return {};
        size_t &place = options_.*option.number;
        if (option.number == &ServeOptions::port && values[0] == "0") return place = 0, Error{};
        return read_number(name, values[0], option.most, place);
    }

private:
    static const ServeOption *find(const std::string &name) {
        for (const ServeOption &one : KNOWN_TO_SERVE)
            if (name == one.name) return &one;
        return nullptr;
    }

    ServeOptions &options_;
};

Error sound_token(std::string content, const std::string &source, std::string &token) {
    constexpr const char *SPACE = " \t\n\r\v\f";
    size_t start = content.size() < MAX_TOKEN + 2 ? content.find_first_not_of(SPACE) : std::string::npos;
    token = start == std::string::npos ? "" : content.substr(start, content.find_last_not_of(SPACE) + 1 - start);
    bool printable = std::all_of(token.begin(), token.end(), [](unsigned char byte) { return byte >= 0x21 && byte <= 0x7E; });
    if (!token.empty() && token.size() <= MAX_TOKEN && printable) return {};
    return fail(INPUT, source + " holds no token: 1 to " + std::to_string(MAX_TOKEN) + " printable ASCII characters without spaces");
}

// The token in a file, without the line's end.
Error read_token(const std::string &path, std::string &token) {
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string content(MAX_TOKEN + 2, '\0');
    struct stat status = {};
    size_t size = 0;
    ssize_t got = -1;
    if (file >= 0 && fstat(file, &status) == 0)
        while (size < content.size() && (got = read(file, &content[size], content.size() - size)) != 0 && (got > 0 || errno == EINTR))
            size += size_t(got > 0 ? got : 0);
    int failure = errno;
    if (file >= 0) close(file);
    if (got < 0) return fail(INPUT, "cannot read " + path + ": " + strerror(failure));
    content.resize(size);
    if (Error error = sound_token(content, path, token)) return error;
    char mode[8];
    snprintf(mode, sizeof mode, "%o", unsigned(status.st_mode & 0777));
    if (status.st_mode & 022) return fail(INPUT, path + " is writable by others (mode " + mode + ")", "chmod 600 " + path);
    if (status.st_mode & 04) say("warning: " + path + " is readable by every user of this device (mode " + mode + ")\n");
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

Error settle(ServeOptions &options) {
    if (!options.max_bodies) options.max_bodies = std::max(MAX_BODIES, options.max_body);
    if (options.max_bodies < options.max_body)
        return fail(USAGE, "--max-bodies " + std::to_string(options.max_bodies) + " is less than one request's --max-body");
    if (Error error = find_token(options, options.token)) return error;
    bool loopback = options.host == "127.0.0.1" || options.host == "::1" || options.host == "localhost";
    if (options.socket_path.empty() && !loopback && options.token.empty())
        return fail(USAGE, options.host + " is not a loopback address: anyone who can reach it could use this server",
                    "require a token (--token-file, EMBED_TOKEN_FILE), or use --host 127.0.0.1");
    return {};
}

}  // namespace

Error parse_serve_options(int count, char **words, ServeOptions &options) {
    ServeGrammar grammar(options);
    std::vector<std::string> texts;
    Error error = read_words(count, words, 2, grammar, texts);
    if (!error && !options.help && !texts.empty()) {
        std::string listed;
        for (auto &text : texts) listed += " " + text;
        error = usage("unrecognized arguments:" + listed);
    }
    if (!error.hint.empty()) error.hint = "see embed serve --help";
    return error || options.help ? error : settle(options);
}

}  // namespace embed
