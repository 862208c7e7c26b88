// Vectors onto a stream: JSON, JSON lines, NumPy's npy, bare numbers, or a table for eyes.
#pragma once
#include <memory>
#include <string>

#include "base/error.h"
#include "program/options.h"
#include "program/output.h"
#include "program/reading.h"

namespace embed {

class Embedder;
struct Bundle;

// Opens the model for texts, and the output for what becomes of them. A code of 2 where no text can come.
Error begin(const Options &options, const Bundle &bundle, Embedder &embedder, Output &output);

// What stands around objects that are an array of JSON, or one a line.
struct Objects {
    bool array, any = false;
    const char *before() {
        const char *mark = !array ? "" : any ? ",\n" : "[\n";
        any = true;
        return mark;
    }
    const char *close() const { return array ? "}" : "}\n"; }
    const char *end() const { return array ? "\n]\n" : ""; }
};

class Writer {
public:
    virtual ~Writer() = default;
    virtual Error write(const Record &record, const float *vector) = 0;
    virtual Error finish() { return {}; }
};

// Appends `"text":…`, or the field that names the record.
void append_source(const Options &options, const Record &record, std::string &out);

// The writer of a format. A code of 2 when the output does not allow it.
Error open_writer(const std::string &format, const Options &options, size_t dimension, Output &output,
                  std::unique_ptr<Writer> &writer);

}  // namespace embed
