// What the server's reader finds in connections, each a line in hexadecimal digits: METHOD PATH BODY in hexadecimal digits, one request behind
// the other, and whether it refused what follows.
#include <iostream>
#include <string>

#include "serve/request.h"

namespace {

struct Open final : embed::Gate {
    embed::Refusal admit(const embed::Request &, uint64_t) override { return {}; }
    embed::Refusal take(size_t, size_t) override { return {}; }
};

int digit(char each) { return each <= '9' ? each - '0' : each - 'a' + 10; }

}  // namespace

int main() {
    const char *methods[] = {"GET", "HEAD", "POST", "OPTIONS", "OTHER"};
    for (std::string line; std::getline(std::cin, line);) {
        std::string bytes;
        for (size_t at = 0; at < line.size(); at += 2) bytes += char(digit(line[at]) * 16 + digit(line[at + 1]));
        Open gate;
        embed::RequestReader reader(gate);
        for (size_t at = 0; at < bytes.size();) {
            at += reader.feed(bytes.data() + at, bytes.size() - at);
            if (reader.state() != embed::RequestReader::WHOLE) break;
            std::cout << methods[reader.request.method] << ' ' << reader.request.path << ' ';
            for (unsigned char each : reader.request.body) std::cout << "0123456789abcdef"[each >> 4] << "0123456789abcdef"[each & 15];
            std::cout << (reader.refusal ? " refused" : " ") << '\t';
            if (reader.refusal || !reader.request.keep) break;
            reader.restart();
        }
        std::cout << (reader.state() == embed::RequestReader::BROKEN ? "broken" : "") << '\n';
    }
}
