// Mutates inputs and hands them to a target, as libFuzzer does, for compilers that have none:
//     fuzz TARGET INPUTS SEED LAST FILE...        (60s for INPUTS: for so many seconds)
// With clang: -fsanitize=fuzzer,address,undefined -DTARGET=fuzz_table.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

// A program has those that it is made with.
int fuzz_bundle(const uint8_t *data, size_t size) __attribute__((weak));
int fuzz_http(const uint8_t *data, size_t size) __attribute__((weak));
int fuzz_json(const uint8_t *data, size_t size) __attribute__((weak));
int fuzz_lines(const uint8_t *data, size_t size) __attribute__((weak));
int fuzz_outputs(const uint8_t *data, size_t size) __attribute__((weak));
int fuzz_plan(const uint8_t *data, size_t size) __attribute__((weak));
int fuzz_signature(const uint8_t *data, size_t size) __attribute__((weak));
int fuzz_table(const uint8_t *data, size_t size) __attribute__((weak));

#ifdef TARGET
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return TARGET(data, size); }
#else

namespace {

using Target = int (*)(const uint8_t *, size_t);
using Input = std::vector<uint8_t>;

// What numbers and lengths go wrong at.
const uint64_t ODD[] = {0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x10FFFF, 0x110000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ull << 40, 1ull << 61, ~0ull};
const char *const WORDS[] = {"\"", "\\u", "\\ud83d", "{", "}", "[", "]", ",", ":", "null", "1e999", "-", "\n", "\r", "\xEF\xBB\xBF", "\xE2\x80", "\xF4\x90\x80\x80", " ", "\r\n\r\n", "Content-Length: ", "Transfer-Encoding: chunked\r\n"};

Input mutated(const Input &seed, const Input &other, std::mt19937_64 &chance) {
    Input made = seed;
    auto below = [&](size_t limit) { return size_t(chance() % (limit ? limit : 1)); };
    for (size_t changes = 1 + below(4); changes > 0; changes--) {
        size_t at = below(made.size()), length = 1 + below(std::min<size_t>(made.size() - at + 1, 64));
        switch (below(8)) {
        case 0: if (!made.empty()) made[at] ^= uint8_t(1 << below(8)); break;
        case 1: if (!made.empty()) made[at] = uint8_t(chance()); break;
        case 2: made.resize(at); break;
        case 3: made.erase(made.begin() + long(at), made.begin() + long(std::min(made.size(), at + length))); break;
        case 4: {
            std::string word = WORDS[below(std::size(WORDS))];
            made.insert(made.begin() + long(at), word.begin(), word.end());
            break;
        }
        case 5: {
            // Where numbers lie is where they are aligned.
            uint64_t number = ODD[below(std::size(ODD))] + below(3) - 1;
            size_t width = size_t(1) << below(4), place = at / width * width;
            for (size_t byte = 0; byte < width && place + byte < made.size(); byte++) made[place + byte] = uint8_t(number >> 8 * byte);
            break;
        }
        case 6: {
            size_t from = below(other.size());
            made.insert(made.begin() + long(at), other.begin() + long(from), other.begin() + long(std::min(other.size(), from + length)));
            break;
        }
        case 7: {
            // The first bytes say where the others are.
            size_t place = below(std::min<size_t>(made.size(), 512));
            if (!made.empty()) made[place] = uint8_t(chance());
            break;
        }
        }
    }
    return made;
}

}  // namespace

int main(int count, char **words) {
    if (count < 6) return 2;
    const std::string name = words[1], last = words[4];
    Target target = name == "bundle" ? fuzz_bundle : name == "http" ? fuzz_http : name == "json" ? fuzz_json : name == "lines" ? fuzz_lines : name == "outputs" ? fuzz_outputs : name == "plan" ? fuzz_plan : name == "signature" ? fuzz_signature : fuzz_table;
    std::mt19937_64 chance(strtoull(words[3], nullptr, 10));
    std::vector<Input> seeds;
    for (int index = 5; index < count; index++) {
        std::ifstream file(words[index], std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    for (const Input &seed : seeds) target(seed.data(), seed.size());
    const std::string limit = words[2];
    const double number = strtod(words[2], nullptr);
    const auto begin = std::chrono::steady_clock::now();
    auto going = [&](size_t runs) {
        if (limit.back() != 's') return double(runs) < number;
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < number;
    };
    size_t runs = 0;
    for (; going(runs); runs++) {
        Input input = mutated(seeds[chance() % seeds.size()], seeds[chance() % seeds.size()], chance);
        // What ends the process is what this file holds.
        if (FILE *kept = fopen(last.c_str(), "wb")) {
            fwrite(input.data(), 1, input.size(), kept);
            fclose(kept);
        }
        target(input.data(), input.size());
    }
    printf("%zu\n", runs);
    unlink(last.c_str());
}
#endif
