#include "program/writing.h"

#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "base/utf8.h"
#include "embedder/embedder.h"
#include "program/numbers.h"

namespace embed {

namespace {

class JsonWriter final : public Writer {
public:
    JsonWriter(const Options &options, size_t dimension, Output &output, bool array)
        : options_(options), dimension_(dimension), output_(output), objects_{array} {}

    Error write(const Record &record, const float *vector) override {
        line_ = objects_.before();
        head(record);
        if (Error error = append_fields(vector, dimension_, options_.dtype, line_)) return error;
        output_.write(line_ + objects_.close());
        return {};
    }

    Error finish() override {
        output_.write(objects_.end());
        return {};
    }

private:
    // All that comes before the vector: the text, or the object that was read, otherwise untouched.
    void head(const Record &record) {
        if (!record.source.is(Json::OBJECT)) {
            line_ += "{\"text\":";
            write_json_string(record.text, line_, false);
            line_ += ',';
        } else if (options_.has_id_field) {
            line_ += '{';
            write_json_string(options_.id_field, line_, false);
            line_ += ':';
            write_json(*record.source.get(options_.id_field), line_, 0, false);
            line_ += ',';
        } else if (Json rest; without_ours(record.source, rest)) {
            std::string again;
            write_json(rest, again, 0, true);
            line_ += again.substr(0, again.size() - 1) + (rest.members.empty() ? "" : ",");
        } else {
            line_ += stripped_right(std::string_view(record.line).substr(0, record.line.size() - 1));
            line_ += ',';
        }
    }

    // Whether the object has fields of our names; then what is left of it without them.
    bool without_ours(const Json &source, Json &rest) const {
        rest.kind = Json::OBJECT;
        for (auto &member : source.members)
            if (member.first != "embedding" && (member.first != "scale" || options_.dtype != "int8"))
                rest.members.push_back(member);
        return rest.members.size() != source.members.size();
    }

    const Options &options_;
    size_t dimension_;
    Output &output_;
    Objects objects_;
    std::string line_;
};

class RawWriter : public Writer {
public:
    RawWriter(const Options &options, size_t dimension, Output &output)
        : options_(options), dimension_(dimension), output_(output) {}

    Error write(const Record &, const float *vector) override {
        row_.clear();
        Error error = append_packed(vector, dimension_, options_.dtype, row_);
        output_.write(row_);
        return error;
    }

protected:
    const Options &options_;
    size_t dimension_;
    Output &output_;

private:
    std::string row_;
};

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0. The header says how
// many texts follow; where that is not known before the end, it is written over then.
class NpyWriter final : public RawWriter {
public:
    NpyWriter(const Options &options, size_t dimension, Output &output)
        : RawWriter(options, dimension, output) {
        if (options.texts.empty()) start_ = output.position();
        output.write(header(options.texts.size()));
    }

    Error write(const Record &record, const float *vector) override {
        count_++;
        return RawWriter::write(record, vector);
    }

    Error finish() override { return start_ < 0 ? Error{} : output_.patch(start_, header(count_)); }

private:
    std::string header(size_t count) const {
        constexpr size_t size = 128;
        std::string text = std::string("{'descr': '") + numpy_name(options_.dtype) +
                           "', 'fortran_order': False, 'shape': (" + std::to_string(count) + ", " +
                           std::to_string(row_width(options_.dtype, dimension_)) + "), }";
        text.resize(size - 11, ' ');
        return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + "\n";
    }

    off_t start_ = -1;
    size_t count_ = 0;
};

// A line a text, with as many of its numbers as the terminal has room for.
class TableWriter final : public Writer {
public:
    TableWriter(size_t dimension, Output &output) : dimension_(dimension), output_(output) {
        struct winsize size = {};
        int columns = ioctl(output.descriptor(), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 100;
        text_ = std::max(8, int(columns * 0.45));
        numbers_ = size_t(std::max(1, (columns - text_ - 3) / 8));
    }

    Error write(const Record &record, const float *vector) override {
        std::string line = fitted(record.text) + " ";
        char number[32];
        for (size_t index = 0; index < numbers_ && index < dimension_; index++) {
            snprintf(number, sizeof number, "%8.4f", double(vector[index]));
            line += number;
        }
        output_.write(line + (dimension_ > numbers_ ? " …\n" : "\n"));
        return {};
    }

private:
    static int columns_of(uint32_t point) {
        static const uint32_t wide[][2] = {{0x1100, 0x115F}, {0x2E80, 0xA4CF},   {0xAC00, 0xD7A3},
                                           {0xF900, 0xFAFF}, {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                           {0xFFE0, 0xFFE6}, {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD}};
        for (auto &range : wide)
            if (point >= range[0] && point <= range[1]) return 2;
        return 1;
    }

    // What could steer a terminal, or cannot be seen.
    static bool is_hidden(uint32_t point) {
        static const uint32_t hidden[][2] = {
            {0, 0x1F},        {0x7F, 0xA0},     {0xAD, 0xAD},       {0x61C, 0x61C},   {0x180E, 0x180E},
            {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F},   {0x3000, 0x3000}, {0xE000, 0xF8FF},
            {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xE0000, 0x10FFFF}};
        for (auto &range : hidden)
            if (point >= range[0] && point <= range[1]) return true;
        return point == 0x1680;
    }

    // A text in exactly so many columns.
    std::string fitted(std::string_view text) const {
        std::vector<uint32_t> shown;
        int columns = 0;
        for (size_t at = 0; at < text.size() && int(shown.size()) <= text_;) {
            uint32_t point = next_code_point(text, at);
            shown.push_back(is_hidden(point) ? 0xB7 : point);
            columns += columns_of(shown.back());
        }
        if (columns > text_) {
            while (columns > text_ - 1) {
                columns -= columns_of(shown.back());
                shown.pop_back();
            }
            shown.push_back(0x2026);
            columns++;
        }
        std::string out;
        for (uint32_t point : shown) append_code_point(out, point);
        return out.append(size_t(text_ - columns), ' ');
    }

    size_t dimension_, numbers_ = 0;
    int text_ = 0;
    Output &output_;
};

}  // namespace

Error begin(const Options &options, const Bundle &bundle, Embedder &embedder, Output &output) {
    if (options.texts.empty() && !options.has_input && is_terminal(0)) return no_text(options, "");
    if (Error error = embedder.open(bundle, options.embedding())) return error;
    return output.open(options.output_path());
}

void append_source(const Options &options, const Record &record, std::string &out) {
    bool named = options.has_id_field && record.source.is(Json::OBJECT);
    write_json_string(named ? options.id_field : "text", out, false);
    out += ':';
    if (named) write_json(*record.source.get(options.id_field), out, 0, false);
    else write_json_string(record.text, out, false);
}

Error open_writer(const std::string &format, const Options &options, size_t dimension, Output &output,
                  std::unique_ptr<Writer> &writer) {
    if (format == "npy") {
        if (options.texts.empty() && !output.can_patch())
            return fail(
                USAGE,
                "npy requires a seekable output, not a pipe or >>: its header holds the number of texts",
                "use --output FILE, or --out raw or jsonl");
        writer = std::make_unique<NpyWriter>(options, dimension, output);
    } else if (format == "raw") {
        writer = std::make_unique<RawWriter>(options, dimension, output);
    } else if (format == "table") {
        writer = std::make_unique<TableWriter>(dimension, output);
    } else {
        writer = std::make_unique<JsonWriter>(options, dimension, output, format == "json");
    }
    return {};
}

}  // namespace embed
