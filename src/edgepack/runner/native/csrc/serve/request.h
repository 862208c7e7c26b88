// Requests of HTTP/1.1 and HTTP/1.0 (RFC 9112), as they come in pieces. What another reader could understand
// in another way is refused: lines without CR LF, folded headers, a body with two lengths.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/refusal.h"

namespace embed {

struct Request {
    enum Method { GET, HEAD, POST, OPTIONS, OTHER };
    Method method = OTHER;
    std::string path, body;
    // What is looked at of the headers; none but the last came twice.
    std::string host, type, authorization, origin, asked_headers;
    bool old = false;      // HTTP/1.0
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
    enum Part { FIRST_LINE, FIELDS, DATA, CHUNK_SIZE, CHUNK_END, TRAILERS };

    size_t take_line(const char *data, size_t size);
    size_t take_data(const char *data, size_t size);
    void line(std::string_view text);
    void first_line(std::string_view text);
    void field(std::string_view text);
    void head_complete();
    void chunk_size(std::string_view text);
    void malformed(const std::string &why);

    Gate &gate_;
    State state_ = HEAD;
    Part part_ = FIRST_LINE;
    std::string line_;
    size_t lines_ = 0;  // bytes of the head, or of what is between two chunks
    size_t seen_ = 0;
    const char *twice_ = nullptr;
    bool close_ = false, chunked_ = false, otherwise_ = false;  // of Connection and Transfer-Encoding
    bool sized_ = false;
    uint64_t rest_ = 0;  // of the body or of a chunk
};

}  // namespace embed
