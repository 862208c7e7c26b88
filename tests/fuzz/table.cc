// A compiled tokenizer of a stranger's making: its sum is right, all else may be wrong. It is refused, or it turns texts into ids.
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace {

void make_sum_right(std::vector<uint8_t> &table) {
    if (table.size() < 32) return;
    uint64_t size = table.size(), sum = 0, word;
    memcpy(&table[8], &size, 8);
    for (size_t at = 32, index = 0; at + 8 <= table.size(); at += 8, index++) {
        memcpy(&word, &table[at], 8);
        sum += word * (2 * index + 1);
    }
    memcpy(&table[16], &sum, 8);
}

const std::string TEXTS[] = {
    "a cat sat on the mat", "", " ", "  It's   1234 o'clock,\r\n\tisn't it?  ", "\xC3\x9C\x6E\x69\x63\x6F\xCC\x88\x64\xE2\x80\x83\xE6\xBC\xA2\xE5\xAD\x97",
    "\xED\x95\x9C\xEA\xB8\x80 \xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\xB7 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA", "[CLS] [MASK] <s></s> <mask>", std::string(300, 'a'),
    "\xEF\xB7\xBA\xC7\x85\xEF\xAC\x83\xF4\x8F\xBF\xBF\xE2\x80\x8B"};

}  // namespace

int fuzz_table(const uint8_t *data, size_t size) {
    std::vector<uint8_t> table(data, data + size);
    table.resize(table.size() / 8 * 8);
    make_sum_right(table);
    static const int file = memfd_create("table", 0);
    static const std::string path = "/proc/self/fd/" + std::to_string(file);
    if (ftruncate(file, 0) || pwrite(file, table.data(), table.size(), 0) != ssize_t(table.size())) abort();
    embed::Tokenizer tokenizer;
    if (embed::Error error = tokenizer.open(path)) return error.code == embed::BUNDLE ? 0 : (abort(), 0);
    embed::Encoding encoding;
    for (const std::string &text : TEXTS)
        for (size_t most : {size_t(1), size_t(16), size_t(512)}) {
            (void)tokenizer.encode(text, most, encoding);
            if (encoding.ids.size() > std::max(most, tokenizer.special_tokens() + 1) || encoding.types.size() != encoding.ids.size()) abort();
        }
    return 0;
}
