// Standard input of a stranger, as lines and as JSON lines; and the words of a command line.
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "program/options.h"
#include "program/reading.h"

int fuzz_lines(const uint8_t *data, size_t size) {
    static const int file = memfd_create("lines", 0);
    if (ftruncate(file, 0) || pwrite(file, data, size, 0) != ssize_t(size)) abort();
    std::vector<std::string> words{"embed"};
    for (size_t at = 0; at < std::min<size_t>(size, 200); at++) {
        if (data[at] == ' ') words.emplace_back();
        else if (data[at]) words.back() += char(data[at]);
    }
    std::vector<char *> pointers;
    for (std::string &word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    embed::Options parsed;
    (void)embed::parse_options(int(words.size()), pointers.data(), parsed);
    for (int way = 0; way < 8; way++) {
        embed::Options options;
        options.has_input = true;
        options.input = "/proc/self/fd/" + std::to_string(file);
        options.jsonl = way & 1;
        options.strict = way & 2;
        options.skip_bad = way & 4;
        (void)embed::read_records(options, 4, [](std::vector<embed::Record> &records) -> embed::Error {
            for (const embed::Record &record : records) {
                std::string_view rest = record.text;
                size_t bad = 0;
                while (!rest.empty()) {
                    size_t length = embed::valid_sequence(rest, bad);
                    if (!length) abort();  // a text that is not UTF-8 would reach the tokenizer
                    rest.remove_prefix(length);
                }
            }
            return {};
        });
    }
    return 0;
}
