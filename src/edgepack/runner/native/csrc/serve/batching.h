// Texts of many requests at once through the model: a bounded queue, and batches that wait only for what is
// on its way.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>

#include "serve/metrics.h"
#include "serve/model.h"

namespace embed {

// One thread reads requests to rows of tokens; as many as the model has run these, at most `window` at a time
// each, a row of each request in turn. What waits is shared out among the threads that are free. A batch that
// is not full waits `wait` at most, and only while requests are being read.
class Batcher {
public:
    // `wake_pipe`: a descriptor that gets a byte when a task is done.
    Batcher(const ServedModel &model, const ServeOptions &options, Metrics &metrics, int wake_pipe);
    Batcher(const Batcher &) = delete;
    Batcher &operator=(const Batcher &) = delete;
    // A code of 5 where the system gives no thread.
    Error start();
    void submit(TaskPointer task);
    // Those that are done since it was asked last.
    std::vector<TaskPointer> done();
    // Rows in the queue.
    size_t waiting();

private:
    using Picked = std::vector<std::pair<TaskPointer, size_t>>;
    using Lock = std::unique_lock<std::mutex>;

    void read();
    void run_lane();
    void gather(Lock &lock);
    Picked pick();
    void work(const Picked &picked);
    Refusal queue(const TaskPointer &task);
    void fail_all(const Picked &picked, const Error &error);
    // Without the lock.
    void finish(const TaskPointer &task);

    const ServedModel &model_;
    const ServeOptions &options_;
    Metrics &metrics_;
    int wake_pipe_;
    std::mutex mutex_;
    std::condition_variable changed_, arrived_;
    std::deque<TaskPointer> unread_, queued_;
    std::vector<TaskPointer> done_;
    size_t waiting_ = 0, expected_ = 0, free_ = 0;
    double seconds_a_text_ = 0.01;
};

}  // namespace embed
