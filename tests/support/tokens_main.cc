// A tokenizer by itself, to be compared with the one that it is made from: texts in, ids out, in binary.
// In: length (u32) and bytes of each text. Out: count (u32), the ids (u32), the types (u32).
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tokenizer/tokenizer.h"

int main(int count, char **words) {
    if (count != 3) return 2;
    embed::Tokenizer tokenizer;
    if (embed::Error error = tokenizer.open(words[1])) {
        fprintf(stderr, "error: %s\n", error.message.c_str());
        return error.code;
    }
    size_t max_length = size_t(strtoul(words[2], nullptr, 10));
    std::vector<char> text;
    embed::Encoding encoding;
    uint32_t length;
    while (fread(&length, 4, 1, stdin) == 1) {
        text.resize(length);
        if (fread(text.data(), 1, length, stdin) != length) return 3;
        if (tokenizer.encode({text.data(), length}, max_length, encoding)) return 1;
        std::vector<uint32_t> out{uint32_t(encoding.ids.size())};
        out.insert(out.end(), encoding.ids.begin(), encoding.ids.end());
        out.insert(out.end(), encoding.types.begin(), encoding.types.end());
        if (fwrite(out.data(), 4, out.size(), stdout) != out.size()) return 7;
    }
    return 0;
}
