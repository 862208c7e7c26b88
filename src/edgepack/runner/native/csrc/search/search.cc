// `embed search`: the texts that are nearest to a query, by the cosine of their vectors.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sys/stat.h>

#include "base/text.h"
#include "embedder/embedder.h"
#include "features/feature.h"
#include "program/output.h"
#include "search/index.h"
#include "program/reading.h"

namespace embed {

namespace {

constexpr size_t MAKER = 32;  // digits of its id
// Kept vectors that are made again; how much another CPU may change a cosine, at most.
constexpr size_t LOOKED_AT = 3;
constexpr float MOST_APART = 0.1f;

struct Found {
    float cosine;
    size_t line;
    std::string text;

    bool operator<(const Found &other) const {
        return cosine != other.cosine ? cosine > other.cosine : line < other.line;
    }
};

using Nearest = std::vector<Found>;

bool is_blank(const std::string &text) { return stripped(text).empty(); }

Error read_queries(const Options &options, std::vector<std::string> &queries) {
    if (!options.has_queries) return decode(options.query, "text 1", options.strict, queries.emplace_back());
    Options lines;
    lines.input = options.queries, lines.has_input = true, lines.strict = options.strict;
    Error error = read_records(lines, 1, [&](std::vector<Record> &records) -> Error {
        if (!is_blank(records[0].text)) queries.push_back(records[0].text);
        return {};
    });
    if (error) return error;
    return queries.empty() ? fail(USAGE, options.queries + " has no query") : Error{};
}

// Where the vectors of a file are kept; empty for what is no plain file.
std::string beside(const Options &options, unsigned &mode) {
    struct stat status;
    if (!options.has_input || stat(options.input.c_str(), &status) || !S_ISREG(status.st_mode)) return "";
    mode = status.st_mode;
    return options.input + ".embed.npy";
}

// Appends vectors of length 1; zeros stay zeros.
Error unit_vectors(const Embedder &embedder, const std::string &prefix,
                   const std::vector<std::string_view> &texts, std::vector<float> &vectors) {
    std::vector<std::string> whole;
    for (std::string_view text : texts) whole.push_back(prefix + std::string(text));
    if (Error error = embedder.embed({whole.begin(), whole.end()}, vectors)) return error;
    size_t size = embedder.dimension();
    for (float *row = vectors.data() + vectors.size() - texts.size() * size;
         row != vectors.data() + vectors.size(); row += size) {
        double square = 0;
        for (size_t at = 0; at < size; at++) square += double(row[at]) * row[at];
        double length = square > 0 ? std::sqrt(square) : 1;
        for (size_t at = 0; at < size; at++) row[at] = float(row[at] / length);
    }
    return {};
}

// The nearest so far, the nearest first; of equally near ones, that of the first line.
void take_nearest(const float *query, const float *rows, size_t dimension, const std::vector<Record> &records,
                  const Options &options, Nearest &nearest) {
    for (size_t at = 0; at < records.size(); at++) {
        float cosine = dot(query, rows + at * dimension, dimension);
        if (cosine < options.least || (nearest.size() == options.nearest && cosine <= nearest.back().cosine))
            continue;
        Found found{cosine, records[at].number, records[at].text};
        nearest.insert(std::upper_bound(nearest.begin(), nearest.end(), found), std::move(found));
        if (nearest.size() > options.nearest) nearest.pop_back();
    }
}

// The nearest of each query, three in all: a vector that somebody put there for a text is to be found.
Error look_again(const std::vector<Nearest> &nearest, const float *wanted, size_t dimension,
                 const Index::Make &make, const std::string &path) {
    size_t left = LOOKED_AT, each = (left + nearest.size() - 1) / nearest.size();
    for (const Nearest &some : nearest) {
        for (size_t at = 0; at < std::min(each, some.size()) && left; at++, left--) {
            std::vector<float> row;
            if (Error error = make({some[at].text}, row)) return error;
            if (std::fabs(dot(wanted, row.data(), dimension) - some[at].cosine) > MOST_APART)
                return fail(INPUT, path + " holds other vectors than this model's",
                            "remove it, or name another file with --index");
        }
        wanted += dimension;
    }
    return {};
}

std::string on_one_line(const std::string &text) {
    std::string shown = harmless(text);
    std::replace_if(shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    return shown;
}

// `cosine TAB line TAB text` each; with a line for the query where there may be several.
void write_lines(const std::string &query, const Nearest &nearest, bool headed, std::string &out) {
    char cosine[32];
    if (headed) out += (out.empty() ? "# " : "\n# ") + on_one_line(query) + "\n";
    for (const Found &found : nearest) {
        snprintf(cosine, sizeof cosine, "%.4f", double(found.cosine));
        out += cosine + ("\t" + std::to_string(found.line)) + "\t" + on_one_line(found.text) + "\n";
    }
}

void write_object(const std::string &query, const Nearest &nearest, std::string &out) {
    char cosine[32];
    std::string line = "{\"query\":";
    write_json_string(query, line, false);
    line += ",\"nearest\":[";
    for (const Found &found : nearest) {
        snprintf(cosine, sizeof cosine, "%.4f", double(found.cosine));
        line += (&found == nearest.data() ? "{\"line\":" : ",{\"line\":") + std::to_string(found.line) +
                ",\"cosine\":" + cosine + ",\"text\":";
        write_json_string(found.text, line, false);
        line += "}";
    }
    out += harmless(line + "]}\n", "\\u%04x");
}

Error search(const Options &options, const Bundle &bundle, std::string &text) {
    if (!options.has_input && is_terminal(0)) return no_text(options, "");
    std::vector<std::string> queries;
    if (Error error = read_queries(options, queries)) return error;
    auto prefix = [&](const char *kind) { return bundle.prompt(kind) ? bundle.prompt(kind)->text : ""; };
    const std::string passage = prefix("passage");
    size_t dimension = options.dim ? options.dim : bundle.dimension;
    Index index;
    const std::string kept = options.has_index ? options.index : beside(options, index.mode),
                      maker = bundle.text("model", "embedder");
    if (!kept.empty() && maker.size() != MAKER)
        return fail(BUNDLE, "manifest.json does not name the embedder", COPY_AGAIN);
    const size_t tokens = options.max_length ? options.max_length : bundle.max_length;
    if (Error error = index.open(kept, options.has_index,
                                 "embedder " + maker + ", " + std::to_string(dimension) + " numbers, " +
                                     std::to_string(tokens) + " tokens",
                                 dimension))
        return error;
    // Never taken apart: the end of the process is quicker.
    Embedder &embedder = *new Embedder;
    if (Error error = embedder.open(bundle, options.embedding())) return error;
    std::vector<float> wanted, rows;
    if (Error error = unit_vectors(embedder, prefix("query"), {queries.begin(), queries.end()}, wanted))
        return error;
    std::vector<Nearest> nearest(queries.size());
    bool seen = false;
    auto make = [&](const std::vector<std::string_view> &texts, std::vector<float> &made) {
        return unit_vectors(embedder, passage, texts, made);
    };
    Error error = read_records(
        options, embedder.batch_size() * WINDOW_BATCHES, [&](std::vector<Record> &records) -> Error {
            records.erase(std::remove_if(records.begin(), records.end(),
                                         [](const Record &one) { return is_blank(one.text); }),
                          records.end());
            seen = seen || !records.empty();
            if (Error failed = index.vectors(records, make, rows)) return failed;
            for (size_t at = 0; at < queries.size(); at++)
                take_nearest(&wanted[at * dimension], rows.data(), dimension, records, options, nearest[at]);
            return {};
        });
    if (error) return error;
    if (!seen) return no_text(options);
    if (index.has_kept())
        if (Error failed = look_again(nearest, wanted.data(), dimension, make, kept)) return failed;
    if (Error failed = index.finish()) return failed;
    for (size_t at = 0; at < queries.size(); at++) {
        if (options.json) write_object(queries[at], nearest[at], text);
        else write_lines(queries[at], nearest[at], options.has_queries, text);
    }
    return {};
}

Error run(const Options &options, const Bundle &bundle, bool &done) {
    std::string text;
    done = true;
    Error error = search(options, bundle, text);
    return error ? error : print(text);
}

}  // namespace

extern const Feature SEARCH_FEATURE = [] {
    Feature feature;
    feature.name = "search";
    feature.commands = SEARCH;
    feature.run = run;
    return feature;
}();

}  // namespace embed
