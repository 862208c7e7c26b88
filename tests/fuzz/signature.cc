// A key and a signature's file of a stranger, with a NUL between them. Nobody can make another statement that is taken.
#include <cstdlib>
#include <string>

#include "signature/statement.h"

int fuzz_signature(const uint8_t *data, size_t size) {
    std::string both(reinterpret_cast<const char *>(data), size);
    size_t end = std::min(both.find('\0'), both.size());
    embed::Json statement;
    embed::Error error = embed::open_signature(both.substr(std::min(end + 1, both.size())), both.substr(0, end), statement);
    if (error) return error.code == embed::USAGE || error.code == embed::BUNDLE ? 0 : (abort(), 0);
    static std::string first;
    std::string said;
    embed::write_json(statement, said, 0, true);
    if (first.empty()) first = said;
    if (said != first) abort();
    return 0;
}
