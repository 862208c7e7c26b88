#include "serve/connection.h"

#include <cerrno>
#include <ctime>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace embed {

namespace {

constexpr size_t RECEIVED_AT_ONCE = 1 << 16, LINGER_BYTES = 1 << 20;
constexpr double IDLE_SECONDS = 60, LINGER_SECONDS = 2;
constexpr std::string_view CONTINUE = "HTTP/1.1 100 \r\n\r\n";

// 0: nothing at the moment, -1: no more.
ssize_t receive_some(int descriptor, char *chunk) {
    ssize_t got;
    do got = recv(descriptor, chunk, RECEIVED_AT_ONCE, 0);
    while (got < 0 && errno == EINTR);
    if (got > 0) return got;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

std::string date() {
    // The names are English whatever the user's language: the C library's are, in programs that set none.
    char text[64];
    time_t now = time(nullptr);
    struct tm parts = {};
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    return text;
}

}  // namespace

Connection::Connection(int descriptor, Service &service, const ServeOptions &options, bool full)
    : descriptor_(descriptor), service_(service), options_(options), full_(full), reader_(*this) {
    wait(IDLE, IDLE_SECONDS);
}

Connection::~Connection() { close_now(); }

void Connection::wait(State state, double seconds) {
    state_ = state;
    deadline_ = Clock::now() + std::chrono::milliseconds(long(seconds * 1e3));
}

void Connection::close_now() {
    if (state_ == CLOSED) return;
    state_ = CLOSED;
    give_back();
    if (task_) task_->gone = true, task_->connection = nullptr;
    close(descriptor_);
}

void Connection::give_back() {
    service_.give_back(held_);
    service_.let_go(kept_);
    held_ = kept_ = 0;
}

short Connection::events() const {
    switch (state_) {
        case IDLE:
        case READING:
        case LINGERING: return POLLIN;
        case SENDING: return POLLOUT;
        case WORKING: return probed_ ? 0 : POLLRDHUP;
        default: return 0;
    }
}

void Connection::happened(short events, size_t connections) {
    if (state_ == WORKING) {
        // The client has broken off.
        if (events & (POLLERR | POLLHUP | POLLNVAL)) return close_now();
        // It says no more. Whether it still listens is told by what comes back of a word that it may pass
        // over.
        probed_ = true;
        if (!reader_.request.old) (void)send(descriptor_, CONTINUE.data(), CONTINUE.size(), MSG_NOSIGNAL);
    } else if (state_ == SENDING) {
        send_more();
        advance(connections);
    } else {
        receive(connections);
    }
}

void Connection::expired() {
    if (state_ == READING) {
        reader_.give_up(refuse(408, "the request was not complete in time"));
        answer(service_.refuse(reader_.request.path, reader_.refusal), false);
    } else if (state_ != WORKING) {
        close_now();
    }
}

void Connection::stop() {
    if (state_ == IDLE) close_now();
}

Refusal Connection::admit(const Request &request, uint64_t length) {
    if (full_) return refuse(503, "too many connections", "", "Retry-After: 1\r\n");
    if (Refusal no = service_.check(request)) return no;
    return length > options_.max_body
               ? refuse(413, "the body is larger than " + std::to_string(options_.max_body) + " bytes")
               : Refusal{};
}

Refusal Connection::take(size_t size, size_t more) {
    Refusal no = service_.take(size, more);
    if (!no) held_ += more;
    return no;
}

void Connection::receive(size_t connections) {
    // One for all: it is empty again before the next client's turn.
    static char chunk[RECEIVED_AT_ONCE];
    ssize_t got = receive_some(descriptor_, chunk);
    if (!got) return;
    if (state_ == LINGERING) {
        if (got < 0 || (lingered_ += size_t(got)) > LINGER_BYTES) close_now();
        return;
    }
    if (got > 0) pending_.assign(chunk, size_t(got));
    else ended_ = true;
    advance(connections);
}

// As far as it goes with what the client has said so far.
void Connection::advance(size_t connections) {
    while (state_ == IDLE || state_ == READING) {
        if (pending_.empty()) {
            if (!ended_) return;
            if (state_ == IDLE) return close_now();
            reader_.end();
        } else if (state_ == IDLE) {
            wait(READING, double(options_.timeout));
        }
        pending_.erase(0, reader_.feed(pending_.data(), pending_.size()));
        if (reader_.state() == RequestReader::HEAD) continue;
        Request &request = reader_.request;
        if (reader_.state() == RequestReader::BODY) {
            if (request.waiting && request.body.empty()) {
                if (send(descriptor_, CONTINUE.data(), CONTINUE.size(), MSG_NOSIGNAL) !=
                    ssize_t(CONTINUE.size()))
                    return close_now();
            }
            request.waiting = false;
            continue;
        }
        bool whole = reader_.state() == RequestReader::WHOLE;
        if (!whole) pending_.clear();
        if (reader_.refusal) {
            answer(service_.refuse(request.path, reader_.refusal), whole);
            continue;
        }
        Response response = service_.respond(request, connections, task_);
        if (task_) {
            state_ = WORKING;
            task_->connection = this;
            service_.hand_over(*task_, held_);
            held_ = 0;
        } else {
            answer(std::move(response), true);
        }
    }
}

void Connection::finish(const TaskPointer &task, size_t connections) {
    if (task != task_ || state_ != WORKING) return;
    task_.reset();
    const std::string &path = reader_.request.path;
    const size_t size = task->answer.size();
    if (service_.keep(size)) {
        kept_ = size;
        answer(service_.finish(*task, path), true);
    } else {
        const char *why = "answers that were not read yet take all the memory that they may";
        answer(service_.refuse(path, refuse(503, why, "", "Retry-After: 1\r\n")), true);
    }
    advance(connections);
}

void Connection::answer(Response response, bool whole) {
    const Request &request = reader_.request;
    std::string length = std::to_string(response.body.size());
    whole_ = whole;
    last_ = full_ || service_.stopping || !whole || !request.keep;
    out_ = "HTTP/1.1 " + std::to_string(response.status) + " \r\nDate: " + date() + "\r\nServer: embed\r\n";
    if (response.status != 204)
        out_ += std::string("Content-Type: ") + response.kind + "\r\nContent-Length: " + length + "\r\n";
    out_ +=
        response.headers + service_.allow(request.origin) + (last_ ? "Connection: close\r\n\r\n" : "\r\n");
    if (request.method != Request::HEAD) out_ += response.body;
    sent_ = 0;
    wait(SENDING, double(options_.timeout));
    send_more();
}

void Connection::send_more() {
    while (sent_ < out_.size()) {
        ssize_t done = send(descriptor_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (done < 0) return close_now();
        sent_ += size_t(done);
    }
    sent_all();
}

void Connection::sent_all() {
    std::string().swap(out_);
    give_back();
    if (!whole_) return linger();
    if (last_) return close_now();
    reader_.restart();
    wait(IDLE, IDLE_SECONDS);
}

// Takes what is still coming for a moment: closing at once would reset the connection and lose our answer.
void Connection::linger() {
    shutdown(descriptor_, SHUT_WR);
    if (ended_) return close_now();
    wait(LINGERING, LINGER_SECONDS);
}

}  // namespace embed
