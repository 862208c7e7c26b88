// `embed --chunks`: long texts in chunks, each with the bytes of the text that it is and its vector.
#include "base/text.h"
#include "chunks/chunks.h"
#include "embedder/embedder.h"
#include "features/feature.h"
#include "program/numbers.h"
#include "program/output.h"
#include "program/reading.h"
#include "program/writing.h"

namespace embed {

namespace {

// What does not go with chunks.
Error check(const Options &options, const Bundle &bundle) {
    if (!options.chunks) return fail(USAGE, "--late requires --chunks");
    for (const char *other : {options.scores(), options.outputs()})
        if (other) return fail(USAGE, std::string("--chunks cannot be used with ") + other);
    if (std::string instead = options.instead(); !instead.empty())
        return fail(USAGE, "--chunks cannot be used with " + instead);
    if (!options.output_format.empty() && options.output_format != "json" && options.output_format != "jsonl")
        return fail(USAGE, "--chunks writes json or jsonl: --out " + options.output_format +
                               " has no place for bytes");
    return options.late ? check_late(bundle) : Error{};
}

// Every chunk says of which text it is: by the field that names it, or by its number, and then with its own
// words.
void append_source(const Options &options, const Record &record, size_t number, const Chunk &chunk,
                   std::string &out) {
    if (options.has_id_field) {
        append_source(options, record, out);
        out += ',';
    } else {
        out += "\"index\":" + std::to_string(number) + ",";
    }
    out += "\"start\":" + std::to_string(chunk.start) + ",\"end\":" + std::to_string(chunk.end) + ",";
    if (options.has_id_field) return;
    out += "\"text\":";
    write_json_string(record.text.substr(chunk.start, chunk.end - chunk.start), out, false);
    out += ',';
}

Error write_chunks(const Options &options, const Bundle &bundle, bool &done) {
    if (!options.chunks && !options.late) return {};
    if (Error error = check(options, bundle)) return error;
    done = true;
    // Never taken apart: the end of the process is quicker.
    Embedder &embedder = *new Embedder;
    Output output;
    if (Error error = begin(options, bundle, embedder, output)) return error;
    Objects objects{options.output_format.empty() ? !options.texts.empty() : options.output_format == "json"};
    const size_t dimension = embedder.dimension();
    size_t count = 0;
    Error error = read_records(
        options, embedder.batch_size() * WINDOW_BATCHES, [&](std::vector<Record> &records) -> Error {
            std::vector<std::string_view> texts;
            std::vector<Chunk> chunks;
            std::vector<float> vectors;
            for (const Record &record : records) texts.push_back(record.text);
            if (Error failed = embedder.embed_chunks(texts, {options.chunks, options.late}, chunks, vectors))
                return failed;
            for (size_t at = 0; at < chunks.size(); at++) {
                std::string line = objects.before() + std::string("{");
                append_source(options, records[chunks[at].text], count + chunks[at].text, chunks[at], line);
                if (Error failed = append_fields(&vectors[at * dimension], dimension, options.dtype, line))
                    return failed;
                output.write(line + objects.close());
            }
            count += records.size();
            return output.flush();
        });
    if (error) {
        // What was embedded before a bad line has been handed out; a file is not left half-written.
        if (Error failed = output.flush()) return failed;
        return error;
    }
    if (!count) return no_text(options);
    output.write(objects.end());
    return output.finish();
}

}  // namespace

extern const Feature CHUNKS_FEATURE = [] {
    Feature feature;
    feature.name = "chunks";
    feature.commands = EMBED;
    feature.run = write_chunks;
    return feature;
}();

}  // namespace embed
