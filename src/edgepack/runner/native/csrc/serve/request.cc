#include "serve/request.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace embed {

namespace {

constexpr size_t MAX_HEAD = 1 << 14;
// Of the headers that are looked at.
constexpr size_t HOST = 1, LIST = 16;

constexpr std::pair<std::string_view, Request::Method> METHODS[] = {
    {"GET", Request::GET}, {"HEAD", Request::HEAD}, {"POST", Request::POST}, {"OPTIONS", Request::OPTIONS}};

std::string lower(std::string_view text) {
    std::string word(text);
    for (char &letter : word)
        if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
    return word;
}

std::string_view trimmed(std::string_view text) {
    size_t first = std::min(text.find_first_not_of(" \t"), text.size());
    return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

bool is_token(std::string_view text) {
    for (char each : text) {
        bool plain =
            (each >= '0' && each <= '9') || (each >= 'A' && each <= 'Z') || (each >= 'a' && each <= 'z');
        if (!plain && (!each || !strchr("!#$%&'*+-.^_`|~", each))) return false;
    }
    return !text.empty();
}

bool is_control(char byte) {
    return ((unsigned char)byte < ' ' && !strchr("\t\r\n", byte)) || byte == 0x7F || !byte;
}

bool read_number(std::string_view text, int base, uint64_t &number) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc() && end == text.data() + text.size();
}

bool lists(std::string_view values, std::string_view wanted) {
    for (size_t at = 0; at <= values.size();) {
        size_t comma = std::min(values.find(',', at), values.size());
        if (lower(trimmed(values.substr(at, comma - at))) == wanted) return true;
        at = comma + 1;
    }
    return false;
}

}  // namespace

void RequestReader::restart() {
    state_ = HEAD;
    part_ = FIRST_LINE;
    line_.clear();
    lines_ = seen_ = 0;
    twice_ = nullptr;
    close_ = chunked_ = otherwise_ = sized_ = false;
    rest_ = 0;
    request = {};
    refusal = {};
}

void RequestReader::give_up(Refusal why) {
    refusal = std::move(why);
    state_ = BROKEN;
}

void RequestReader::malformed(const std::string &why) {
    give_up(refuse(400, "malformed HTTP request: " + why));
}

size_t RequestReader::feed(const char *data, size_t size) {
    size_t at = 0;
    while (at < size && (state_ == HEAD || state_ == BODY))
        at += part_ == DATA ? take_data(data + at, size - at) : take_line(data + at, size - at);
    return at;
}

void RequestReader::end() {
    if (state_ == HEAD || state_ == BODY) malformed("the client broke off");
}

size_t RequestReader::take_line(const char *data, size_t size) {
    const void *end = memchr(data, '\n', size);
    size_t used = std::min(end ? size_t(static_cast<const char *>(end) - data) + 1 : size, MAX_HEAD - lines_);
    if (!used) {
        give_up(refuse(431, "the head of the request is larger than " + std::to_string(MAX_HEAD) + " bytes"));
        return 0;
    }
    lines_ += used;
    line_.append(data, used);
    // At once: who begins with TLS waits for an answer before the line ends.
    if (std::any_of(data, data + used, is_control)) malformed("it has control characters");
    else if (line_.back() == '\n') {
        std::string text;
        text.swap(line_);
        size_t length = text.size() - std::min<size_t>(text.size(), 2);
        if (text.find('\r') != length) malformed("a line does not end with CR LF");
        else line(std::string_view(text).substr(0, length));
    }
    return used;
}

size_t RequestReader::take_data(const char *data, size_t size) {
    size_t used = size_t(std::min<uint64_t>(size, rest_));
    if (Refusal why = gate_.take(request.body.size(), used)) {
        give_up(std::move(why));
        return used;
    }
    request.body.append(data, used);
    if (rest_ -= used) return used;
    if (chunked_) part_ = CHUNK_END;
    else state_ = WHOLE;
    return used;
}

void RequestReader::line(std::string_view text) {
    switch (part_) {
        case FIRST_LINE:
            // Some clients send an empty line behind a body.
            if (!text.empty()) first_line(text);
            break;
        case CHUNK_SIZE: chunk_size(text); break;
        case CHUNK_END:
            part_ = CHUNK_SIZE;
            if (!text.empty()) malformed("a chunk is longer than it says");
            break;
        default:
            if (!text.empty()) field(text);
            else if (part_ == FIELDS) head_complete();
            else state_ = WHOLE;
    }
}

void RequestReader::first_line(std::string_view text) {
    size_t first = text.find(' '), last = text.rfind(' ');
    std::string_view method = text.substr(0, first), target, version;
    if (first != last) target = text.substr(first + 1, last - first - 1), version = text.substr(last + 1);
    auto odd = [](char each) { return each <= ' ' || each > '~'; };
    const bool place = target.substr(0, 1) == "/" || target == "*" || target.find("://") != target.npos;
    if (!is_token(method) || !place || std::any_of(target.begin(), target.end(), odd))
        return malformed("its first line is not a method, a path and a version");
    request.old = version == "HTTP/1.0";
    if (!request.old && version != "HTTP/1.1") return malformed("it is not HTTP/1.1");
    for (auto [name, known] : METHODS)
        if (method == name) request.method = known;
    request.path = target.substr(0, target.find('?'));
    part_ = FIELDS;
}

void RequestReader::field(std::string_view text) {
    size_t colon = text.find(':');
    if (colon == text.npos || !is_token(text.substr(0, colon))) return malformed("a header has no name");
    if (part_ == TRAILERS) return;
    std::string name = lower(text.substr(0, colon));
    std::string_view value = trimmed(text.substr(colon + 1));
    if (name == "content-length") {
        if (sized_ || !read_number(value, 10, rest_)) malformed("Content-Length is not one number");
        sized_ = true;
    }
    if (name == "transfer-encoding") {
        // Several codings, in one header or in two, would leave a body that is coded.
        otherwise_ = otherwise_ || chunked_ || lower(value) != "chunked";
        chunked_ = true;
    }
    if (name == "connection") close_ = close_ || lists(value, "close");
    if (name == "expect") request.waiting = lower(value) == "100-continue";
    const std::pair<const char *, std::string *> places[] = {
        {"host", &request.host},
        {"content-type", &request.type},
        {"authorization", &request.authorization},
        {"origin", &request.origin},
        {"access-control-request-headers", &request.asked_headers}};
    size_t bit = 1;
    for (auto [known, place] : places) {
        if (name == known) {
            // What stands before this server may have looked at the other one. The last of these is a list.
            if (seen_ & bit & ~LIST) twice_ = known;
            seen_ |= bit;
            *place = value;
        }
        bit *= 2;
    }
}

void RequestReader::head_complete() {
    request.keep = !request.old && !close_;
    request.waiting = request.waiting && !request.old;
    if (twice_) return malformed(std::string("several headers ") + twice_);
    if (!request.old && !(seen_ & HOST)) return malformed("no Host header");
    if (chunked_ && (sized_ || request.old))
        return malformed("Transfer-Encoding beside Content-Length, or in HTTP/1.0");
    if (otherwise_)
        return give_up(refuse(
            501, "malformed HTTP request: the body is sent in another way than in one piece or in chunks"));
    refusal = gate_.admit(request, chunked_ ? 0 : rest_);
    const bool more = chunked_ || rest_;
    state_ = !more ? WHOLE : refusal ? BROKEN : BODY;
    part_ = chunked_ ? CHUNK_SIZE : DATA;
    lines_ = 0;
}

void RequestReader::chunk_size(std::string_view text) {
    if (!read_number(text.substr(0, text.find(';')), 16, rest_)) return malformed("a chunk has no size");
    part_ = rest_ ? DATA : TRAILERS;
    lines_ = 0;
}

}  // namespace embed
