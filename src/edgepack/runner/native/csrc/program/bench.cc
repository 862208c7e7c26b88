// How fast this device is.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "features/feature.h"
#include "program/about.h"
#include "embedder/embedder.h"

namespace embed {

namespace {

constexpr double SECONDS = 0.3;  // how long each kind of text is measured
constexpr size_t LENGTHS[] = {
    8, 32, 128};               // tokens of a text, special ones included, as far as the model takes them
constexpr size_t BATCHES = 8;  // batches at once where throughput is measured

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of each run, sorted; three runs at least.
Error repeat(const Embedder &embedder, const std::vector<Encoding> &rows, std::vector<double> &times) {
    std::vector<float> vectors;
    double sum = 0;
    if (Error error = embedder.embed_tokens(rows, vectors)) return error;
    while (times.size() < 3 || sum < SECONDS) {
        vectors.clear();
        double start = now();
        if (Error error = embedder.embed_tokens(rows, vectors)) return error;
        times.push_back(now() - start);
        sum += times.back();
    }
    std::sort(times.begin(), times.end());
    return {};
}

Error measure_length(const Embedder &embedder, size_t length, Json &row) {
    Encoding some, text;
    if (Error error = embedder.encode("a", some)) return error;
    text.ids.assign(length, some.ids[some.ids.size() > 1 ? 1 : 0]);
    text.types.assign(length, 0);
    std::vector<double> alone, together;
    std::vector<Encoding> many(embedder.batch_size() * BATCHES, text);
    if (Error error = repeat(embedder, {text}, alone)) return error;
    if (Error error = repeat(embedder, many, together)) return error;
    row.kind = Json::OBJECT;
    row.members = {{"tokens", json_number(double(length), "%.0f")},
                   {"text_ms", json_number(alone[alone.size() / 2] * 1e3, "%.2f")},
                   {"texts_per_second", json_number(double(many.size()) / together[0], "%.1f")}};
    return {};
}

// Resident memory now and at its highest, from /proc where there is one.
void add_memory(Json &measured) {
    FILE *status = fopen("/proc/self/status", "re");
    if (!status) return;
    char line[256];
    const std::pair<const char *, const char *> names[] = {{"VmRSS:", "resident_mb"}, {"VmHWM:", "peak_mb"}};
    std::vector<std::pair<std::string, Json>> found;
    while (fgets(line, sizeof line, status))
        for (auto [key, name] : names)
            if (strncmp(line, key, strlen(key)) == 0)
                found.emplace_back(name,
                                   json_number(strtod(line + strlen(key), nullptr) * 1024 / 1e6, "%.1f"));
    fclose(status);
    std::reverse(found.begin(), found.end());
    measured.members.insert(measured.members.end(), found.begin(), found.end());
}

}  // namespace

Error bench(const Options &options, const Bundle &bundle, Json &measured) {
    double start = now();
    Embedder embedder;
    if (Error error = embedder.open(bundle, options.embedding())) return error;
    double loaded = now();
    std::vector<float> vector;
    if (Error error = embedder.embed({"a"}, vector)) return error;
    double first = now();
    measured.kind = Json::OBJECT;
    add_placement(embedder.placement(), measured);
    measured.members.insert(measured.members.end(),
                            {{"threads", json_number(embedder.threads(), "%.0f")},
                             {"batch_size", json_number(double(embedder.batch_size()), "%.0f")},
                             {"load_ms", json_number((loaded - start) * 1e3, "%.1f")},
                             {"first_vector_ms", json_number((first - start) * 1e3, "%.1f")}});
    Json rows;
    rows.kind = Json::ARRAY;
    size_t last = 0;
    for (size_t wanted : LENGTHS) {
        size_t length = std::min(wanted, bundle.max_length);
        if (length == last) continue;
        last = length;
        if (Error error = measure_length(embedder, length, rows.items.emplace_back())) return error;
    }
    measured.members.emplace_back("lengths", rows);
    add_memory(measured);
    return {};
}

std::string bench_text(const Json &measured) {
    auto said = [&](const char *name) { return measured.get(name)->text; };
    std::string text = "load " + said("load_ms") + " ms, first vector after " + said("first_vector_ms") +
                       " ms; " + said("threads") + " threads, batches of " + said("batch_size") + "\n";
    if (auto placed_on = feature_with(&Feature::placed_on); placed_on && measured.get("provider"))
        text += placed_on(measured).substr(1) + "\n";
    if (measured.get("resident_mb") && measured.get("peak_mb"))
        text += "resident memory " + said("resident_mb") + " MB, " + said("peak_mb") + " MB at peak\n";
    char line[128];
    for (const Json &row : measured.get("lengths")->items) {
        snprintf(line, sizeof line, "%5s tokens: %8s ms per single text, %8s texts/s in batches\n",
                 row.get("tokens")->text.c_str(), row.get("text_ms")->text.c_str(),
                 row.get("texts_per_second")->text.c_str());
        text += line;
    }
    return text;
}

}  // namespace embed
