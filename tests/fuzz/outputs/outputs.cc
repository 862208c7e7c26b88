// What a manifest says of outputs, labels and the task, and lines of a stranger: refused, or written as JSON that has no NaN.
// The first line of an input takes the place of `"fuzzed": 0` in a sound manifest, which lies in `bundle` beside this program.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "base/json.h"
#include "embedder/bundle.h"
#include "features/feature.h"
#include "program/options.h"

namespace {

std::string folder() {
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path);
    if (size <= 0) abort();
    std::string program(path, size_t(size));
    return program.substr(0, program.rfind('/')) + "/bundle";
}

std::string content(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void finite(const embed::Json &value) {
    if (value.is(embed::Json::NUMBER) && !std::isfinite(value.number())) abort();
    for (const embed::Json &item : value.items) finite(item);
    for (auto &[name, item] : value.members) finite(item);
}

// Of rows that are as long as they say; none of them has what the reader of JSON would not take.
void check(const std::string &written, bool echoed) {
    for (size_t at = 0; at < written.size();) {
        size_t end = written.find('\n', at), position = 0;
        std::string line = written.substr(at, end - at), message;
        at = end == std::string::npos ? written.size() : end + 1;
        embed::Json value;
        if (!embed::parse_json(line, value, message, position)) abort();
        if (const embed::Json *sparse = value.get("sparse"); sparse && !echoed)
            if (sparse->get("indices")->items.size() != sparse->get("values")->items.size()) abort();
        // What a line had beside its text comes again as it was, and may be NaN.
        if (!echoed) finite(value);
    }
}

embed::Error run(const std::string &feature, const embed::Options &options, const embed::Bundle &bundle, bool &done) {
    for (const embed::Feature *const *each = embed::FEATURES; *each; each++)
        if (feature == (*each)->name) return (*each)->run(options, bundle, done);
    abort();
}

}  // namespace

// The search for leaks wants ptrace of threads that end meanwhile, and fails for that.
extern "C" const char *__asan_default_options() { return "detect_leaks=0"; }

int fuzz_outputs(const uint8_t *data, size_t size) {
    static const std::string home = folder(), sound = content(home + "/sound.json"), mark = "\"fuzzed\": 0";
    static const int lines = memfd_create("lines", 0);
    std::string input(reinterpret_cast<const char *>(data), size);
    size_t first = std::min(input.find('\n'), input.size());
    std::string manifest = sound, rest = input.substr(std::min(first + 1, input.size()));
    manifest.replace(manifest.find(mark), mark.size(), input.substr(0, first));
    std::ofstream(home + "/manifest.json", std::ios::binary) << manifest;
    if (ftruncate(lines, 0) || pwrite(lines, rest.data(), rest.size(), 0) != ssize_t(rest.size())) abort();
    embed::Bundle bundle;
    if (embed::Error error = bundle.open(home)) return error.code == embed::BUNDLE ? 0 : (abort(), 0);
    for (int way = 0; way < 10; way++) {
        embed::Options options;
        options.has_input = options.has_output = true;
        options.input = "/proc/self/fd/" + std::to_string(lines);
        options.output = home + "/written";
        options.jsonl = way & 1;
        options.skip_bad = way < 8;
        options.threads = 1;
        bool npz = way == 4 || way == 5;
        options.output_format = npz ? "npz" : "jsonl";
        bool done = false;
        embed::Error error;
        unlink(options.output.c_str());
        if (way < 6) {
            options.sparse = way < 2 || npz, options.multi_vector = way >= 2 && way < 4, options.prefix = way & 1 ? "query" : "";
            options.dense = way == 1;
            error = run("outputs", options, bundle, done);
        } else {
            options.has_rerank = way == 6, options.rerank = "a cat", options.classify = way >= 7, options.pairs = way == 9;
            error = run("ranking", options, bundle, done);
        }
        if (error && (error.code < embed::USAGE || error.code > embed::OUTPUT || error.message.empty())) abort();
        if (!error && done && !npz) check(content(options.output), options.jsonl);
    }
    return 0;
}
