// Requests of HTTP/1.x, as they come in pieces: llhttp knows the protocol, sizes are limited here.
#pragma once
#include <string>
#include <string_view>

#include "third_party/llhttp/llhttp.h"
#include "serve/refusal.h"

namespace embed {

struct Request {
    enum Method { GET, HEAD, POST, OPTIONS, OTHER };
    Method method = OTHER;
    std::string path, body;
    // What is looked at of the headers; none but the last came twice.
    std::string host, type, authorization, origin, asked_headers;
    bool keep = false;     // the connection may stay
    bool waiting = false;  // the client sends the body when it is told to
};

// What may be refused before a request is there as a whole.
class Gate {
public:
    virtual ~Gate() = default;
    // By its headers; `length` is that of the body, as far as it is said.
    virtual Refusal admit(const Request &request, uint64_t length) = 0;
    // More bytes of a body that has `size` already.
    virtual Refusal take(size_t size, size_t more) = 0;
};

class RequestReader {
public:
    enum State { HEAD, BODY, WHOLE, BROKEN };

    explicit RequestReader(Gate &gate) : gate_(gate) { restart(); }
    RequestReader(const RequestReader &) = delete;
    RequestReader &operator=(const RequestReader &) = delete;
    // How many of these bytes belong to the request; those that follow one that is WHOLE do not.
    size_t feed(const char *data, size_t size);
    // The client says no more.
    void end();
    // For the next one of the connection.
    void restart();
    State state() const { return state_; }
    void give_up(Refusal refusal);

    Request request;
    Refusal refusal;  // of a WHOLE or a BROKEN request

private:
    template <class Take> static int with(llhttp_t *parser, Take take) {
        return take(*static_cast<RequestReader *>(parser->data));
    }
    static const llhttp_settings_t &settings();
    int headers_complete();
    int body(const char *data, size_t size);
    int header_complete();
    void malformed(int code);

    Gate &gate_;
    llhttp_t parser_;
    State state_ = HEAD;
    size_t head_ = 0, seen_ = 0;
    const char *twice_ = nullptr;
    bool transferred_ = false, coded_ = false;  // in chunks; in another way
    std::string target_, name_, value_;
};

}  // namespace embed
