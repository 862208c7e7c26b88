#include "program/embed_main.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "embedder/embedder.h"
#include "features/feature.h"
#include "program/about.h"
#include "program/options.h"
#include "program/output.h"
#include "program/reading.h"
#include "program/writing.h"

namespace embed {

namespace {

int complain(const Error &error) {
    say("error: " + error.message + "\n" + (error.hint.empty() ? "" : "hint: " + error.hint + "\n"));
    return error.code;
}

void out_of_memory() {
    static const char text[] = "error: out of memory\nhint: a smaller --batch-size needs less\n";
    ssize_t done = write(2, text, sizeof text - 1);
    _exit(done >= 0 ? FAULT : FAULT);
}

// The bundle is the program's own file, or lies in its folder, through symbolic links, wherever it was started
// from.
std::string own_place(const char *name) {
    auto executed = reinterpret_cast<const char *>(getauxval(AT_EXECFN));
    std::string missed;
    // Without /proc, or started through the loader, the first is none.
    for (const char *program : {"/proc/self/exe", executed, name}) {
        if (!program) continue;
        char *found = realpath(program, nullptr);
        const std::string path = found ? found : program;
        free(found);
        const size_t slash = path.rfind('/');
        const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
        for (const std::string &place : {path, folder})
            if (uint64_t size; size_of(place + "/manifest.json", size) == 0) return place;
        if (program != name || !executed) missed = folder;
    }
    return missed;
}

Error similarity(const Options &options, const Bundle &bundle) {
    std::string texts[2];
    for (size_t index = 0; index < 2; index++)
        if (Error error = decode(options.similarity[index], "text " + std::to_string(index + 1),
                                 options.strict, texts[index]))
            return error;
    Embedder &embedder = *new Embedder;
    if (Error error = embedder.open(bundle, options.embedding())) return error;
    std::vector<float> vectors;
    // Each alone: in a batch, one text could move the other's vector.
    for (auto &text : texts)
        if (Error error = embedder.embed({text}, vectors)) return error;
    char line[64];
    snprintf(line, sizeof line, "%.6f\n",
             cosine(vectors.data(), vectors.data() + embedder.dimension(), embedder.dimension()));
    return print(line, options.output_path());
}

// A table where a person looks, else JSON.
std::string usual_format(const Options &options) {
    if (!options.has_output && options.dtype == "f32" && is_terminal(1)) return "table";
    return options.texts.empty() ? "jsonl" : "json";
}

Error embed_texts(const Options &options, const Bundle &bundle) {
    // Never taken apart: the end of the process is quicker.
    Embedder &embedder = *new Embedder;
    Output output;
    if (Error error = begin(options, bundle, embedder, output)) return error;
    std::string format = options.output_format.empty() ? usual_format(options) : options.output_format;
    std::unique_ptr<Writer> writer;
    std::vector<float> vectors;
    std::vector<std::string_view> texts;
    Error error = read_records(
        options, embedder.batch_size() * WINDOW_BATCHES, [&](std::vector<Record> &records) -> Error {
            if (!writer)
                if (Error failed = open_writer(format, options, embedder.dimension(), output, writer))
                    return failed;
            vectors.clear();
            texts.clear();
            for (const Record &record : records) texts.push_back(record.text);
            if (Error failed = embedder.embed(texts, vectors)) return failed;
            for (size_t index = 0; index < records.size(); index++)
                if (Error failed = writer->write(records[index], &vectors[index * embedder.dimension()]))
                    return failed;
            return output.flush();
        });
    if (error) {
        // What was embedded before a bad line has been handed out; a file is not left half-written.
        if (Error failed = output.flush()) return failed;
        return error;
    }
    if (!writer) return no_text(options);
    if (Error failed = writer->finish()) return failed;
    return output.finish();
}

// The ids of each text, as a JSON array a line.
Error print_tokens(const Options &options, const Bundle &bundle) {
    Tokenizer tokenizer;
    if (Error error = tokenizer.open(bundle.tokenizer)) return error;
    Output output;
    if (Error error = output.open(options.output_path())) return error;
    size_t max_length = options.max_length ? options.max_length : bundle.max_length;
    Error error = read_records(options, 1, [&](std::vector<Record> &records) -> Error {
        Encoding encoding;
        if (Error failed = tokenizer.encode(records[0].text, max_length, encoding)) return failed;
        std::string line = "[";
        for (int64_t id : encoding.ids) line += (line.size() > 1 ? "," : "") + std::to_string(id);
        output.write(line + "]\n");
        return {};
    });
    return error ? error : output.finish();
}

// A key's file that was named has to be one, and an empty name is none; what the program was built for is
// asked for beside it.
Error open_bundle(const char *program, const std::string *public_key, Bundle &bundle) {
    if (Error error = bundle.open(own_place(program))) return error;
    const char *named = public_key ? public_key->c_str() : getenv("EMBED_REQUIRE_SIGNATURE");
    if (REQUIRED_KEY)
        if (Error error = check_signature(bundle, REQUIRED_KEY)) return error;
    if (named) {
        std::string key;
        if (Error error = read_file(named, key, 1 << 16)) return fail(USAGE, error.message);
        if (Error error = check_signature(bundle, key)) return error;
    }
    bool checked = REQUIRED_KEY || named;
    return !checked && bundle.text("runner", "check") == "start" ? bundle.check_data() : Error{};
}

// What is asked of a part that the program was built without.
Error check_features(const Options &options, const Bundle &bundle) {
    const std::string name = bundle.text("model", "name");
    if (const char *option = options.scores(); option && !has_feature("scores"))
        return fail(USAGE, option + (": " + name) + " is an embedding model",
                    "embed search \"a query\" FILE finds the nearest texts; for scores, build a bundle of a "
                    "reranker or a classifier");
    if (has_feature("outputs")) return {};
    if (const char *option = options.outputs())
        return fail(
            USAGE, option + (": " + name + " makes one vector of a text"),
            "leave it out; SPLADE, ColBERT and BGE-M3 models give sparse vectors and vectors of tokens");
    if (options.output_format == "npz")
        return fail(USAGE, "--out npz requires --sparse or --multi-vector", "for vectors: --out npy");
    return {};
}

Error run(int count, char **words) {
    std::string text;
    Options options;
    if (count > 1 && !strcmp(words[1], "serve") && !has_feature("serve"))
        return fail(USAGE, "this program was built without a server",
                    "build with --set serve=true; to embed the word: embed -- serve");
    if (Error error = parse_options(count, words, options)) return error;
    if (options.help) return print(help_of(options.command));
    // Never taken apart: a server's threads use it until the process ends.
    Bundle &bundle = *new Bundle;
    if (Error error = open_bundle(words[0], options.has_public_key ? &options.public_key : nullptr, bundle))
        return error;
    if (Error error = check_features(options, bundle)) return error;
    bool done = false;
    for (const Feature *const *each = FEATURES; *each; each++)
        if ((*each)->commands & options.command)
            if (Error error = (*each)->run(options, bundle, done); error || done) return error;
    if (options.tokens) return print_tokens(options, bundle);
    if (options.instead() == "--similarity") return similarity(options, bundle);
    if (options.instead().empty()) return embed_texts(options, bundle);
    if (Error error = about(options, bundle, text)) return error;
    // JSON escapes the controls of ASCII, and none of the others.
    return print(harmless(text, options.json ? "\\u%04x" : "\\x%02x"), options.output_path());
}

}  // namespace

}  // namespace embed

int embed_main(int count, char **words) {
    std::set_new_handler(embed::out_of_memory);
    embed::listen_to_signals();
    embed::Error error = embed::run(count, words);
    if (auto end = embed::feature_with(&embed::Feature::end)) end();
    return error ? embed::complain(error) : 0;
}
