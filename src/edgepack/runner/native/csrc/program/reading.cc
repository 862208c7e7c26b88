#include "program/reading.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stream.h"
#include "base/text.h"

namespace embed {

namespace {

constexpr size_t CHUNK = 1 << 16;

class Reader {
public:
    Reader(const Options &options, size_t size, const Take &take)
        : options_(options), size_(size), take_(take) {}

    Error arguments() {
        for (size_t index = 0; index < options_.texts.size(); index++) {
            Record record;
            std::string where = "text " + std::to_string(index + 1);
            Error error = decode(options_.texts[index], where, options_.strict, record.text);
            if (error) return flush(error);
            if (Error failed = add(std::move(record))) return failed;
        }
        return flush({});
    }

    // Only a line feed ends a line (a carriage return before it goes too); the last line needs none.
    Error stream(int descriptor) {
        std::vector<char> chunk(CHUNK);
        std::string rest;
        for (;;) {
            ssize_t got = read_some(descriptor, chunk.data(), chunk.size());
            if (got < 0) return fail(INPUT, std::string("cannot read the input: ") + strerror(errno));
            if (got == 0) break;
            std::string_view here(chunk.data(), size_t(got));
            size_t end;
            while ((end = here.find('\n')) != std::string_view::npos) {
                rest += here.substr(0, end);
                if (Error error = line(rest)) return flush(error);
                rest.clear();
                here.remove_prefix(end + 1);
                // What a long line took goes back before the next one.
                if (rest.capacity() > 16 * CHUNK) std::string().swap(rest);
            }
            rest += here;
            if (Error error = flush({})) return error;
        }
        if (!rest.empty())
            if (Error error = line(rest)) return flush(error);
        return flush({});
    }

private:
    Error line(std::string_view raw) {
        number_++;
        if (number_ == 1 && raw.substr(0, 3) == "\xEF\xBB\xBF") raw.remove_prefix(3);
        if (!raw.empty() && raw.back() == '\r') raw.remove_suffix(1);
        Record record;
        record.number = number_;
        bool blank = false;
        Error error = decode(raw, "line " + std::to_string(number_), options_.strict, record.text);
        if (!error && options_.jsonl) error = object(record, blank);
        if (error && options_.skip_bad) {
            say("skipped: " + error.message + "\n");
            return {};
        }
        if (error || blank) return error;
        return add(std::move(record));
    }

    // The record's text is the line at first.
    Error object(Record &record, bool &blank) {
        std::string where = "line " + std::to_string(number_), message;
        record.line = stripped(record.text);
        blank = record.line.empty();
        if (blank) return {};
        size_t position = 0;
        if (!parse_json(record.line, record.source, message, position))
            return fail(INPUT,
                        where + " is not JSON: " + message + ", column " + std::to_string(position + 1),
                        "each line must be one JSON object; plain text needs no --jsonl");
        if (!record.source.is(Json::OBJECT))
            return fail(INPUT, where + " is not a JSON object", "plain text needs no --jsonl");
        std::string field = options_.text_field.empty() ? "text" : options_.text_field;
        const Json *text = record.source.get(field);
        if (!text || !text->is(Json::STRING))
            return fail(INPUT, where + (text ? " has no text in its" : " has no") + " field '" + field + "'",
                        "name the field with --text-field");
        if (options_.has_id_field && !record.source.get(options_.id_field))
            return fail(INPUT, where + " has no field '" + options_.id_field + "'",
                        "name the field with --id-field");
        record.text = text->text;
        return without_surrogates(record.text, where, options_.strict);
    }

    Error add(Record record) {
        window_.push_back(std::move(record));
        return window_.size() == size_ ? flush({}) : Error{};
    }

    Error flush(Error reason) {
        if (!window_.empty()) {
            Error error = take_(window_);
            window_.clear();
            if (error) return error;
        }
        return reason;
    }

    const Options &options_;
    size_t size_, number_ = 0;
    const Take &take_;
    std::vector<Record> window_;
};

}  // namespace

Error read_records(const Options &options, size_t size, const Take &take) {
    Reader reader(options, size, take);
    if (!options.texts.empty()) return reader.arguments();
    if (!options.has_input) return reader.stream(0);
    int file = open(options.input.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail(INPUT, "cannot read " + options.input + ": " + strerror(errno));
    Error error = reader.stream(file);
    close(file);
    return error;
}

Error no_text(const Options &options, const char *why) {
    return fail(USAGE, std::string("no text") + why,
                options.command == SEARCH ? "name a file, or give lines on standard input"
                                          : "pass a text: embed \"a sentence\", or lines on standard input");
}

// Whether a person sits there; a closed descriptor counts, for nothing will come from it either.
bool is_terminal(int descriptor) {
    struct stat status;
    return isatty(descriptor) || fstat(descriptor, &status) != 0;
}

std::string harmless(const std::string &text, const char *form) {
    std::string shown;
    char escaped[8];
    for (size_t at = 0; at < text.size(); at++) {
        uint8_t byte = uint8_t(text[at]), next = at + 1 < text.size() ? uint8_t(text[at + 1]) : 0;
        bool far = byte == 0xC2 && next >= 0x80 && next < 0xA0;  // U+0080 to U+009F
        if (far || byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\t')) {
            snprintf(escaped, sizeof escaped, form, far ? next : byte);
            shown += escaped;
            at += far;
        } else {
            shown += text[at];
        }
    }
    return shown;
}

void say(const std::string &said) { write_all(2, harmless(said)); }

}  // namespace embed
