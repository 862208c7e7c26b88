// What a reranker or a classifier makes of texts: its last layer, on the vectors of the encoder.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "embedder/embedder.h"
#include "features/feature.h"
#include "program/output.h"
#include "program/reading.h"
#include "program/writing.h"
#include "scoring/head.h"

namespace embed {

namespace {

std::string number(double value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", value);
    return digits;
}

// Where a person looks: a column each.
void append_column(const std::string &word, std::string &out) {
    size_t start = out.size();
    out += harmless(word);
    std::replace_if(
        out.begin() + ptrdiff_t(start), out.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    out += '\t';
}

// The first text of a pair.
Error query_of(const Options &options, const Record &record, std::string &query) {
    std::string where = "line " + std::to_string(record.number);
    const Json *found = record.source.get("query");
    if (!found || !found->is(Json::STRING))
        return fail(INPUT, where + (found ? " has no text in its" : " has no") + " field 'query'",
                    "with --pairs, each object has a query and a text");
    query = found->text;
    return without_surrogates(query, where, options.strict);
}

struct Ranked {
    double score;
    size_t index;
    Record record;
};

// The C library's way to sort: that of C++ would be three kilobytes of program.
int compare(const void *first, const void *second) {
    auto one = *static_cast<const Ranked *const *>(first),
         other = *static_cast<const Ranked *const *>(second);
    if (one->score != other->score) return one->score > other->score ? -1 : 1;
    return one->index < other->index ? -1 : 1;
}

struct Written {
    const Options &options;
    bool table;
    Objects objects;
    std::string text;

    void ranked(const Ranked &one) {
        char shown[32];
        snprintf(shown, sizeof shown, "%.4f\t", one.score);
        if (table) {
            text += shown + std::to_string(one.index) + '\t';
            append_column(one.record.text, text);
            text.back() = '\n';
            return;
        }
        text += objects.before();
        text += "{\"index\":" + std::to_string(one.index) + ",\"score\":" + number(one.score) + ",";
        append_source(options, one.record, text);
        text += objects.close();
    }

    void classified(const Record &record, const Head &head, const std::vector<double> &scores) {
        char shown[32];
        size_t best = size_t(std::max_element(scores.begin(), scores.end()) - scores.begin());
        if (table) {
            snprintf(shown, sizeof shown, "%.4f\t", scores[best]);
            text += shown;
            append_column(head.labels[best], text);
            append_column(record.text, text);
            text.back() = '\n';
            return;
        }
        text += objects.before();
        text += '{';
        append_source(options, record, text);
        text += ",\"label\":";
        write_json_string(head.labels[best], text, false);
        text += ",\"score\":" + number(scores[best]) + ",\"scores\":{";
        for (size_t label = 0; label < scores.size(); label++) {
            if (label) text += ',';
            write_json_string(head.labels[label], text, false);
            text += ':' + number(scores[label]);
        }
        text += '}';
        text += objects.close();
    }
};

// What the model is for, as messages say it.
const char *noun(bool ranks) { return ranks ? "a reranker" : "a classifier"; }

Error check(const Options &options, const Bundle &bundle, bool ranks) {
    std::string name = bundle.text("model", "name");
    const char *way =
        ranks ? "embed --rerank \"a query\" ranks texts" : "embed --classify says what texts are";
    bool embeds =
        options.command == SEARCH || options.instead() == "--similarity" || options.instead().empty();
    const char *option = options.scores();
    if (options.has_rerank ? !ranks
        : options.classify ? ranks
                           : embeds && !option && !options.features && !options.tokens)
        return fail(USAGE,
                    name + " is " + noun(ranks) + (option ? "" : ": its vectors are not for comparing texts"),
                    way);
    if (!option) return {};
    if (options.pairs && (options.has_rerank || !options.jsonl))
        return fail(USAGE,
                    options.has_rerank ? "--pairs cannot be used with --rerank" : "--pairs requires --jsonl",
                    "each object has its own \"query\" beside its text");
    const std::string instead = options.instead();
    if (!instead.empty()) return fail(USAGE, std::string(option) + " cannot be used with " + instead);
    if (options.output_format == "npy" || options.output_format == "raw" || options.dtype != "f32" ||
        options.dim || !options.prefix.empty())
        return fail(USAGE,
                    std::string(option) +
                        " writes no vectors: --out npy and raw, --dtype, --dim and --prefix do not apply");
    return {};
}

Error print_tokens(const std::vector<Encoding> &encoded, Output &output) {
    for (const Encoding &one : encoded) {
        std::string line;
        for (const std::vector<int64_t> *row : {&one.ids, &one.types}) {
            line += line.empty() ? "[[" : "],[";
            for (size_t at = 0; at < row->size(); at++) line += (at ? "," : "") + std::to_string((*row)[at]);
        }
        output.write(line + "]]\n");
    }
    return {};
}

Error work(const Options &options, const Bundle &bundle, bool ranks) {
    Head head;
    if (Error error = head.open(bundle)) return error;
    std::string query;
    if (options.has_rerank)
        if (Error error = decode(options.rerank, "the query", options.strict, query)) return error;
    // Never taken apart: the end of the process is quicker.
    Embedder &embedder = *new Embedder;
    Output output;
    if (Error error = begin(options, bundle, embedder, output)) return error;
    std::string format = options.output_format;
    if (format.empty())
        format = !options.has_output && is_terminal(1) ? "table" : options.texts.empty() ? "jsonl" : "json";
    Written written{options, format == "table", {format == "json"}, {}};
    std::vector<Ranked> ranked;
    size_t count = 0;
    Error error = read_records(options, embedder.batch_size() * WINDOW_BATCHES,
                               [&](std::vector<Record> &records) -> Error {
                                   std::vector<std::string_view> texts;
                                   std::vector<Encoding> encoded(records.size());
                                   std::vector<float> vectors;
                                   std::vector<double> scores;
                                   for (size_t at = 0; at < records.size(); at++) {
                                       texts.push_back(records[at].text);
                                       if (options.pairs) {
                                           std::vector<Encoding> one;
                                           if (Error failed = query_of(options, records[at], query))
                                               return failed;
                                           if (Error failed = embedder.encode_pairs(query, {texts[at]}, one))
                                               return failed;
                                           encoded[at] = std::move(one[0]);
                                       } else if (!options.has_rerank) {
                                           if (Error failed = embedder.encode(records[at].text, encoded[at]))
                                               return failed;
                                       }
                                   }
                                   if (options.has_rerank)
                                       if (Error failed = embedder.encode_pairs(query, texts, encoded))
                                           return failed;
                                   if (options.tokens) {
                                       count += records.size();
                                       return print_tokens(encoded, output);
                                   }
                                   if (Error failed = embedder.embed_tokens(encoded, vectors)) return failed;
                                   for (size_t at = 0; at < records.size(); at++) {
                                       head.scores(&vectors[at * head.dimension], scores);
                                       Ranked one{scores[0], count++, std::move(records[at])};
                                       if (options.has_rerank) ranked.push_back(std::move(one));
                                       else if (ranks) written.ranked(one);
                                       else written.classified(one.record, head, scores);
                                   }
                                   output.write(written.text);
                                   written.text.clear();
                                   return output.flush();
                               });
    if (error) return error;
    if (!count) return no_text(options);
    if (options.tokens) return output.finish();
    // The best first; of equal ones, that which came first.
    std::vector<const Ranked *> order;
    for (const Ranked &one : ranked) order.push_back(&one);
    if (!order.empty()) qsort(order.data(), order.size(), sizeof order[0], compare);
    for (const Ranked *one : order) written.ranked(*one);
    output.write(written.text + written.objects.end());
    return output.finish();
}

Error score_texts(const Options &options, const Bundle &bundle, bool &done) {
    bool ranks = bundle.text("model", "task") == "rank";
    if (Error error = check(options, bundle, ranks)) return error;
    done = options.scores();
    return done ? work(options, bundle, ranks) : Error{};
}

}  // namespace

extern const Feature SCORES_FEATURE = [] {
    Feature feature;
    feature.name = "ranking";
    feature.commands = EMBED | SEARCH;
    feature.run = score_texts;
    return feature;
}();

}  // namespace embed
