// One client: its requests, one after the other. Every wait has an end, so that slow and silent clients cost
// a connection only for a while.
#pragma once
#include "serve/service.h"

namespace embed {

class Connection final : Gate {
public:
    // `full`: there are too many, which is its only answer.
    Connection(int descriptor, Service &service, const ServeOptions &options, bool full);
    ~Connection() override;
    int descriptor() const { return descriptor_; }
    // Of poll(): what it waits for, and what happened; `connections` are all that are open.
    short events() const;
    void happened(short events, size_t connections);
    // When it has waited long enough, and what is done then.
    Clock::time_point deadline() const { return deadline_; }
    void expired();
    // Its task, where that is done.
    void finish(const TaskPointer &task, size_t connections);
    // Closes it where nothing is lost by that.
    void stop();
    bool closed() const { return state_ == CLOSED; }
    const TaskPointer &task() const { return task_; }

private:
    enum State { IDLE, READING, WORKING, SENDING, LINGERING, CLOSED };

    Refusal admit(const Request &request, uint64_t length) override;
    Refusal take(size_t size, size_t more) override;
    void receive(size_t connections);
    void advance(size_t connections);
    void answer(Response response, bool whole);
    void send_more();
    void sent_all();
    void linger();
    void close_now();
    void give_back();
    void wait(State state, double seconds);

    int descriptor_;
    Service &service_;
    const ServeOptions &options_;
    bool full_, last_ = false, whole_ = false, ended_ = false, probed_ = false;
    State state_ = IDLE;
    RequestReader reader_;
    Clock::time_point deadline_;
    std::string pending_, out_;
    size_t sent_ = 0, held_ = 0, kept_ = 0, lingered_ = 0;
    TaskPointer task_;
};

}  // namespace embed
