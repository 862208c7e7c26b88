// JSON of a stranger: what is read is written again, and read again as the same where it is UTF-8, as readers of texts see to.
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "base/utf8.h"

static bool is_utf8(std::string_view text) {
    for (size_t bad, length; !text.empty(); text.remove_prefix(length))
        if (!(length = embed::valid_sequence(text, bad))) return false;
    return true;
}

int fuzz_json(const uint8_t *data, size_t size) {
    std::string_view text(reinterpret_cast<const char *>(data), size);
    embed::Json value, again;
    std::string message, written, twice;
    size_t position = 0;
    if (!embed::parse_json(text, value, message, position)) return message.empty() || position > size ? (abort(), 0) : 0;
    for (bool ascii : {false, true}) {
        written.clear();
        embed::write_json(value, written, 0, ascii);
    }
    if (!is_utf8(text)) return 0;
    if (!embed::parse_json(written, again, message, position)) abort();
    embed::write_json(again, twice, 0, true);
    if (written != twice) abort();
    return 0;
}
