// What a model gives of texts beside, or in the place of, one vector: sparse vectors, and vectors of tokens.
#include <algorithm>

#include "embedder/embedder.h"
#include "features/feature.h"
#include "outputs/model_outputs.h"
#include "outputs/npz.h"
#include "program/numbers.h"
#include "program/output.h"
#include "program/reading.h"
#include "program/writing.h"

namespace embed {

namespace {

// Arrays of all texts, for npz.
struct Arrays {
    std::vector<float> dense, weights, vectors;
    std::vector<uint32_t> ids;
    std::vector<int64_t> weight_ends{0}, vector_ends{0};

    void add(const TextOutputs &text, size_t width) {
        dense.insert(dense.end(), text.vector.begin(), text.vector.end());
        weights.insert(weights.end(), text.weights.begin(), text.weights.end());
        ids.insert(ids.end(), text.ids.begin(), text.ids.end());
        vectors.insert(vectors.end(), text.vectors.begin(), text.vectors.end());
        weight_ends.push_back(int64_t(ids.size()));
        vector_ends.push_back(int64_t(width ? vectors.size() / width : 0));
    }

    Error write(const Options &options, const ModelOutputs &given, size_t dimension, Output &output) const {
        Npz file;
        std::string texts = std::to_string(weight_ends.size() - 1);
        auto row = [](size_t count) { return "(" + std::to_string(count) + ",)"; };
        auto table = [](const std::string &rows, size_t columns) {
            return "(" + rows + ", " + std::to_string(columns) + ")";
        };
        // What scipy.sparse.load_npz reads.
        if (options.sparse) {
            const int64_t shape[2] = {int64_t(weight_ends.size() - 1), int64_t(given.vocabulary)};
            file.add("indices", "<i4", row(ids.size()), ids);
            file.add("indptr", "<i8", row(weight_ends.size()), weight_ends);
            file.add("format", "|S3", "()", "csr", 3);
            file.add("shape", "<i8", "(2,)", shape, sizeof shape);
            file.add("data", "<f4", row(weights.size()), weights);
        }
        if (options.multi_vector) {
            file.add("vectors", "<f4", table(std::to_string(vector_ends.back()), given.width), vectors);
            file.add("offsets", "<i8", row(vector_ends.size()), vector_ends);
        }
        if (options.dense) file.add("embedding", "<f4", table(texts, dimension), dense);
        return file.write(output);
    }
};

void append_outputs(const Options &options, const ModelOutputs &given, const TextOutputs &text,
                    std::string &out) {
    if (options.dense) {
        out += ",\"embedding\":";
        append_floats(text.vector.data(), text.vector.size(), out);
    }
    if (options.sparse) {
        out += ",\"sparse\":{\"indices\":[";
        for (size_t at = 0; at < text.ids.size(); at++) out += (at ? "," : "") + std::to_string(text.ids[at]);
        out += "],\"values\":";
        append_floats(text.weights.data(), text.weights.size(), out);
        out += '}';
    }
    if (!options.multi_vector) return;
    out += ",\"multi_vector\":[";
    for (size_t at = 0; at < text.vectors.size(); at += given.width) {
        if (at) out += ',';
        append_floats(&text.vectors[at], given.width, out);
    }
    out += ']';
}

Error check(const Options &options, const Bundle &bundle, const ModelOutputs &given) {
    std::string name = bundle.text("model", "name"), instead = options.instead();
    const char *option = options.outputs();
    const char *way = given.sparse ? "embed --sparse gives the weights of a text's tokens"
                                   : "embed --multi-vector gives a vector for each token";
    bool embeds = options.command == SEARCH || instead == "--similarity" || instead.empty();
    if (!given.dense && embeds && !option && !options.features && !options.tokens)
        return fail(USAGE, name + " is " + given.noun() + ": it has no one vector for a text", way);
    if (options.output_format == "npz" && !options.sparse && !options.multi_vector)
        return fail(USAGE, "--out npz requires --sparse or --multi-vector", "for vectors: --out npy");
    if (!option) return {};
    for (auto [asked, there, what] : {std::tuple(options.sparse, given.sparse, "--sparse"),
                                      std::tuple(options.multi_vector, given.width > 0, "--multi-vector"),
                                      std::tuple(options.dense, given.dense, "--dense")})
        if (asked && !there)
            return fail(USAGE,
                        std::string(what) + ": " + name + " is " + given.noun() +
                            (given.dense ? " without them" : ""),
                        way);
    if (!instead.empty() || options.tokens)
        return fail(USAGE,
                    std::string(option) + " cannot be used with " + (instead.empty() ? "--tokens" : instead));
    if (options.output_format == "npy" || options.output_format == "raw" ||
        options.output_format == "table" || options.dtype != "f32" || options.dim)
        return fail(
            USAGE, std::string(option) + " writes json, jsonl or npz in f32: --dtype and --dim do not apply");
    return {};
}

Error work(const Options &options, const Bundle &bundle, const ModelOutputs &given) {
    // Never taken apart: the end of the process is quicker.
    Embedder &embedder = *new Embedder;
    Output output;
    if (Error error = begin(options, bundle, embedder, output)) return error;
    std::string format =
        options.output_format.empty() ? options.texts.empty() ? "jsonl" : "json" : options.output_format;
    Objects objects{format == "json"};
    bool npz = format == "npz";
    size_t count = 0;
    Arrays arrays;
    std::string text;
    Error error = read_records(
        options, embedder.batch_size() * WINDOW_BATCHES, [&](std::vector<Record> &records) -> Error {
            std::vector<std::string_view> texts;
            std::vector<TextOutputs> made;
            for (const Record &record : records) texts.push_back(record.text);
            if (Error failed = embedder.embed_outputs(given, given.side(options.prefix), texts, made))
                return failed;
            for (size_t at = 0; at < records.size(); at++, count++) {
                if (npz) {
                    arrays.add(made[at], given.width);
                    continue;
                }
                text = objects.before() + std::string("{");
                append_source(options, records[at], text);
                append_outputs(options, given, made[at], text);
                output.write(text + objects.close());
            }
            return output.flush();
        });
    if (error) return error;
    if (!count) return no_text(options);
    if (npz)
        if (Error failed = arrays.write(options, given, embedder.dimension(), output)) return failed;
    output.write(objects.end());
    return output.finish();
}

Error write_outputs(const Options &options, const Bundle &bundle, bool &done) {
    ModelOutputs given;
    if (Error error = given.open(bundle)) return error;
    if (Error error = check(options, bundle, given)) return error;
    done = options.outputs();
    return done ? work(options, bundle, given) : Error{};
}

}  // namespace

extern const Feature OUTPUTS_FEATURE = [] {
    Feature feature;
    feature.name = "outputs";
    feature.commands = EMBED | SEARCH;
    feature.run = write_outputs;
    return feature;
}();

}  // namespace embed
