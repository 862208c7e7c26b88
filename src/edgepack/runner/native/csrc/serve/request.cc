#include "serve/request.h"

#include <algorithm>
#include <cstring>

namespace embed {

namespace {

constexpr size_t MAX_HEAD = 1 << 14;
// Of the headers that are looked at.
constexpr size_t HOST = 1, LIST = 16;

void lower(std::string &word) {
    for (char &letter : word)
        if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
}

bool says_continue(std::string value) {
    lower(value);
    return value == "100-continue";
}

}  // namespace

const llhttp_settings_t &RequestReader::settings() {
    static const llhttp_settings_t made = [] {
        llhttp_settings_t one;
        llhttp_settings_init(&one);
        one.on_url = [](llhttp_t *parser, const char *at, size_t size) {
            return with(parser, [&](RequestReader &reader) { return reader.target_.append(at, size), 0; });
        };
        one.on_header_field = [](llhttp_t *parser, const char *at, size_t size) {
            return with(parser, [&](RequestReader &reader) {
                return reader.state_ == HEAD ? reader.name_.append(at, size), 0 : 0;
            });
        };
        one.on_header_value = [](llhttp_t *parser, const char *at, size_t size) {
            return with(parser, [&](RequestReader &reader) {
                return reader.state_ == HEAD ? reader.value_.append(at, size), 0 : 0;
            });
        };
        one.on_header_value_complete = [](llhttp_t *parser) {
            return with(parser, [](RequestReader &reader) { return reader.header_complete(); });
        };
        one.on_headers_complete = [](llhttp_t *parser) {
            return with(parser, [](RequestReader &reader) { return reader.headers_complete(); });
        };
        one.on_body = [](llhttp_t *parser, const char *at, size_t size) {
            return with(parser, [&](RequestReader &reader) { return reader.body(at, size); });
        };
        one.on_message_complete = [](llhttp_t *parser) {
            return with(parser, [](RequestReader &reader) { return reader.state_ = WHOLE, int(HPE_PAUSED); });
        };
        return one;
    }();
    return made;
}

void RequestReader::restart() {
    llhttp_init(&parser_, HTTP_REQUEST, &settings());
    parser_.data = this;
    state_ = HEAD;
    head_ = seen_ = 0;
    twice_ = nullptr;
    transferred_ = coded_ = false;
    request = {};
    refusal = {};
    for (std::string *part : {&target_, &name_, &value_}) part->clear();
}

void RequestReader::give_up(Refusal why) {
    refusal = std::move(why);
    state_ = BROKEN;
}

void RequestReader::malformed(int code) {
    const char *reason = llhttp_get_error_reason(&parser_);
    // What is sent in another way than in one piece or in chunks.
    give_up(refuse(code == HPE_INVALID_TRANSFER_ENCODING ? 501 : 400,
                   std::string("malformed HTTP request: ") +
                       (reason && *reason ? reason : llhttp_errno_name(llhttp_errno_t(code)))));
}

size_t RequestReader::feed(const char *data, size_t size) {
    size_t at = 0;
    while (at < size && (state_ == HEAD || state_ == BODY)) {
        size_t piece = state_ == HEAD ? std::min(size - at, MAX_HEAD - head_) : size - at;
        if (!piece) {
            give_up(
                refuse(431, "the head of the request is larger than " + std::to_string(MAX_HEAD) + " bytes"));
            break;
        }
        bool in_head = state_ == HEAD;
        llhttp_errno_t code = llhttp_execute(&parser_, data + at, piece);
        size_t used = code == HPE_OK ? piece : size_t(llhttp_get_error_pos(&parser_) - (data + at));
        if (in_head) head_ += piece;
        at += used;
        if (state_ == WHOLE || state_ == BROKEN) break;
        if (code != HPE_OK) malformed(code);
    }
    return at;
}

void RequestReader::end() {
    if (state_ == HEAD || state_ == BODY)
        give_up(refuse(400, "malformed HTTP request: the client broke off"));
}

int RequestReader::header_complete() {
    if (state_ != HEAD) return 0;
    lower(name_);
    value_.erase(value_.find_last_not_of(" \t") + 1);
    if (name_ == "transfer-encoding") {
        // llhttp looks at the last coding alone: what comes before it would be taken for the body.
        lower(value_);
        coded_ = coded_ || transferred_ || value_ != "chunked";
        transferred_ = true;
    }
    if (name_ == "expect") request.waiting = says_continue(value_);
    const std::pair<const char *, std::string *> places[] = {
        {"host", &request.host},
        {"content-type", &request.type},
        {"authorization", &request.authorization},
        {"origin", &request.origin},
        {"access-control-request-headers", &request.asked_headers}};
    size_t bit = 1;
    for (auto [name, place] : places) {
        if (name_ == name) {
            // What stands before this server may have looked at the other one. The last of these is a list.
            if (seen_ & bit & ~LIST) twice_ = name;
            seen_ |= bit;
            place->swap(value_);
        }
        bit *= 2;
    }
    name_.clear();
    value_.clear();
    return 0;
}

int RequestReader::headers_complete() {
    static const std::pair<int, Request::Method> methods[] = {{HTTP_GET, Request::GET},
                                                              {HTTP_HEAD, Request::HEAD},
                                                              {HTTP_POST, Request::POST},
                                                              {HTTP_OPTIONS, Request::OPTIONS}};
    for (auto [theirs, ours] : methods)
        if (parser_.method == theirs) request.method = ours;
    // To no other protocol: such a request is answered as any is.
    parser_.upgrade = 0;
    request.path = target_.substr(0, target_.find('?'));
    bool first = parser_.http_minor == 0, chunked = parser_.flags & F_CHUNKED;
    request.keep = !first && llhttp_should_keep_alive(&parser_);
    request.waiting = request.waiting && !first;
    if (parser_.http_major != 1 || twice_ || (!first && !(seen_ & HOST))) {
        give_up(refuse(400, std::string("malformed HTTP request: ") +
                                (parser_.http_major != 1 ? "it is not HTTP/1.1"
                                 : twice_                ? "several headers "
                                                         : "no Host header") +
                                (twice_ ? twice_ : "")));
        return HPE_USER;
    }
    if (coded_) {
        give_up(refuse(
            501, "malformed HTTP request: the body is sent in another way than in one piece or in chunks"));
        return HPE_USER;
    }
    bool more = chunked || parser_.content_length || (parser_.flags & F_TRANSFER_ENCODING);
    refusal = gate_.admit(request, chunked ? 0 : parser_.content_length);
    state_ = BODY;
    if (!refusal || !more) return 0;
    state_ = BROKEN;
    return HPE_USER;
}

int RequestReader::body(const char *data, size_t size) {
    if (Refusal why = gate_.take(request.body.size(), size)) {
        give_up(std::move(why));
        return HPE_USER;
    }
    request.body.append(data, size);
    return 0;
}

}  // namespace embed
