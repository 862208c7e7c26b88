// What the server does with a request, whoever's connection it came by.
#pragma once
#include "serve/batching.h"
#include "serve/request.h"

namespace embed {

struct Response {
    int status = 200;
    std::string body, headers;
    const char *kind = "application/json";
};

// For one thread, that of all connections.
class Service {
public:
    Service(const Bundle &bundle, const ServeOptions &options, const ServedModel &model, Metrics &metrics,
            Batcher &batcher);
    // What can be said before the body is read.
    Refusal check(const Request &request) const;
    // An answer; or a task, whose answer comes by finish() when it is done.
    Response respond(Request &request, size_t connections, TaskPointer &task);
    Response finish(Task &task, const std::string &path);
    // An error in the form that the clients of a path know.
    Response refuse(const std::string &path, const Refusal &refusal);
    // Bytes of all bodies that are read or answered, so that many slow clients cannot fill the memory.
    Refusal take(size_t size, size_t more);
    void give_back(size_t bytes) { left_ += bytes; }
    void hand_over(Task &task, size_t bytes) { task.held = bytes, task.bodies = &left_; }
    // Likewise of answers, until their clients have read them.
    bool keep(size_t bytes) { return bytes <= unread_ && (unread_ -= bytes, true); }
    void let_go(size_t bytes) { unread_ += bytes; }
    // Headers for a page of this origin; empty: it may not read answers.
    std::string allow(const std::string &origin) const;

    bool stopping = false;

private:
    bool is_known(std::string host) const;
    bool is_allowed(const std::string &authorization) const;
    Response preflight(const Request &request);
    std::string info() const;
    std::string tags() const;

    const Bundle &bundle_;
    const ServeOptions &options_;
    const ServedModel &model_;
    Metrics &metrics_;
    Batcher &batcher_;
    std::atomic<size_t> left_;
    uint64_t unread_;
};

}  // namespace embed
