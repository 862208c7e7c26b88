// A provider compiles kernels for the device's own GPU when a shape comes for the first time, and may keep
// them in the user's cache (TensorRT-RTX its runtime cache, when a session ends; TensorRT its engine and
// timings). Where the processor computes, nothing is compiled and nothing kept: that is said, and the golden
// vectors are compared all the same.
#include "gpu/warmup.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <dirent.h>
#include <memory>
#include <numeric>
#include <set>
#include <sys/stat.h>

#include "embedder/embedder.h"
#include "program/about.h"
#include "program/output.h"
#include "program/reading.h"

namespace embed {

namespace {

constexpr size_t WARM_LENGTHS[] = {
    16, 64, 256};  // tokens of a text, as far as the model takes them, and as many as it takes
constexpr size_t ROUNDS = 3;
// A round that takes more of the one before it than this: nothing is being compiled any more.
constexpr double STEADY = 0.9, WARM_SECONDS = 60;

using Shapes = std::vector<std::pair<size_t, size_t>>;

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Batches that are run: one text, as many as usual and as many as can be, of a few lengths.
Shapes shapes_of(const Embedder &embedder, const Placement &placed, size_t longest) {
    std::set<size_t> sizes{1, embedder.batch_size(),
                           placed.largest_batch ? placed.largest_batch : embedder.batch_size()},
        lengths{longest};
    for (size_t length : WARM_LENGTHS) lengths.insert(std::min(length, longest));
    Shapes shapes;
    for (size_t size : sizes)
        for (size_t length : lengths) shapes.emplace_back(size, length);
    return shapes;
}

Error run_shape(const Embedder &embedder, size_t rows, size_t length) {
    Encoding some, text;
    if (Error error = embedder.encode("a", some)) return error;
    text.ids.assign(length, some.ids[some.ids.size() > 1 ? 1 : 0]);
    text.types.assign(length, 0);
    std::vector<float> vectors;
    return embedder.embed_batch(std::vector<Encoding>(rows, text), vectors);
}

// Seconds of each round through the shapes. TensorRT-RTX compiles a shape's own kernels in the background
// while others do the work (kLAZY:
// https://docs.nvidia.com/deeplearning/tensorrt-rtx/latest/inference-library/work-with-dynamic-shapes.html),
// so that a session that ended after one round might have nothing to keep.
Error run_until_steady(const Embedder &embedder, const Shapes &shapes, std::vector<double> &rounds) {
    auto more = [&] {
        if (rounds.size() < ROUNDS) return true;
        return rounds.back() < STEADY * rounds[rounds.size() - 2] &&
               std::accumulate(rounds.begin(), rounds.end(), 0.0) < WARM_SECONDS;
    };
    while (!shapes.empty() && more()) {
        const double start = seconds_now();
        for (auto [rows, length] : shapes)
            if (Error error = run_shape(embedder, rows, length)) return error;
        rounds.push_back(seconds_now() - start);
    }
    return {};
}

// How many files a folder holds, and bytes.
void add_totals(const std::string &folder, double &files, double &bytes, int depth = 8) {
    DIR *opened = depth ? opendir(folder.c_str()) : nullptr;
    if (!opened) return;
    while (dirent *entry = readdir(opened)) {
        const std::string name = entry->d_name, path = folder + "/" + name;
        struct stat status;
        if (name == "." || name == ".." || lstat(path.c_str(), &status)) continue;
        if (S_ISDIR(status.st_mode)) add_totals(path, files, bytes, depth - 1);
        if (S_ISREG(status.st_mode)) files++, bytes += double(status.st_size);
    }
    closedir(opened);
}

Json json_array() {
    Json made;
    made.kind = Json::ARRAY;
    return made;
}

Json cache_of(const std::vector<std::string> &folders) {
    Json listed = json_array();
    for (const std::string &folder : folders) {
        double files = 0, bytes = 0;
        add_totals(folder, files, bytes);
        Json &one = listed.items.emplace_back();
        one.kind = Json::OBJECT;
        one.members = {{"folder", json_text(folder)},
                       {"files", json_number(files, "%.0f")},
                       {"bytes", json_number(bytes, "%.0f")}};
    }
    return listed;
}

// What was made ready, or why there was nothing to be.
std::string first_line(const Json &result) {
    const Json *instead = result.get("instead");
    if (instead)
        return "nothing to warm up: " + result.get("provider")->text + " computes, because " + instead->text +
               "; nothing is compiled or cached";
    const auto &rounds = result.get("round_seconds")->items;
    return "warmed up on " + result.get("provider")->text + " (" + result.get("device")->text +
           "): loaded in " + result.get("load_seconds")->text + " s, " +
           std::to_string(result.get("shapes")->items.size()) + " shapes " + std::to_string(rounds.size()) +
           " times, in " + rounds.front().text + " s at first and " + rounds.back().text + " s at last";
}

std::string warmup_text(const Json &result) {
    char lowest[64];
    snprintf(lowest, sizeof lowest, "%.6f", result.get("min_cosine")->number());
    std::string text = first_line(result) + "\n" + result.get("texts")->text + " texts, lowest cosine " +
                       lowest + " (at least " + result.get("tolerance")->text + ")\n";
    for (const Json &kept : result.get("cache")->items)
        text += "kept in " + kept.get("folder")->text + ": " + kept.get("files")->text + " files, " +
                megabytes(kept.get("bytes")->number()) + "\n";
    return text;
}

}  // namespace

Error warm_up(const Options &options, const Bundle &bundle, bool &done) {
    const Json *provider = bundle.manifest.at("runtime", "provider");
    if (!options.warmup || !provider || provider->is(Json::NONE)) return {};
    done = true;
    const double start = seconds_now();
    auto embedder = std::make_unique<Embedder>();
    if (Error error = embedder->open(bundle, options.embedding())) return error;
    const double loaded = seconds_now();
    const Placement placed = *embedder->placement();
    const Shapes shapes = placed.instead.empty() ? shapes_of(*embedder, placed, bundle.max_length) : Shapes{};
    std::vector<double> rounds;
    if (Error error = run_until_steady(*embedder, shapes, rounds)) return error;
    Json result;
    result.kind = Json::OBJECT;
    if (Error error = compare_golden(bundle, *embedder, result)) return error;
    add_placement(&placed, result);
    // What the provider keeps it writes when its session ends.
    embedder.reset();
    Json listed = json_array(), seconds = json_array();
    for (auto [rows, length] : shapes) {
        Json &shape = listed.items.emplace_back(json_array());
        shape.items = {json_number(double(rows), "%.0f"), json_number(double(length), "%.0f")};
    }
    for (double round : rounds) seconds.items.push_back(json_number(round, "%.3f"));
    result.members.emplace_back("load_seconds", json_number(loaded - start, "%.2f"));
    result.members.emplace_back("shapes", listed);
    result.members.emplace_back("round_seconds", seconds);
    result.members.emplace_back("cache", cache_of(placed.cache));
    std::string text;
    if (options.json) write_json(result, text, 2, false), text += "\n";
    else text = warmup_text(result);
    return print(harmless(text, options.json ? "\\u%04x" : "\\x%02x"), options.output_path());
}

}  // namespace embed
