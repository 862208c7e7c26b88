#include "serve/batching.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <pthread.h>
#include <unistd.h>

namespace embed {

namespace {

constexpr double LONGEST_RETRY = 60, SMOOTHING = 0.2;
constexpr size_t STACK = 2 << 20;  // that of some C libraries is too small for JSON that is deep

template <class Work> bool start_thread(Work work) {
    pthread_attr_t attributes;
    pthread_t thread;
    auto *kept = new Work(work);
    auto call = [](void *given) -> void * { return (*static_cast<Work *>(given))(), nullptr; };
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool started = pthread_create(&thread, &attributes, call, kept) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

// Texts of like length follow each other, so that they meet in a batch.
void order(Task &task) {
    task.order.resize(task.rows.size());
    std::iota(task.order.begin(), task.order.end(), size_t(0));
    std::stable_sort(task.order.begin(), task.order.end(),
                     [&](size_t a, size_t b) { return task.rows[a].ids.size() > task.rows[b].ids.size(); });
}

}  // namespace

Batcher::Batcher(const ServedModel &model, const ServeOptions &options, Metrics &metrics, int wake_pipe)
    : model_(model), options_(options), metrics_(metrics), wake_pipe_(wake_pipe) {}

Error Batcher::start() {
    bool started = start_thread([this] { read(); });
    size_t lanes = 0;
    // On fewer where the system gives no more.
    while (started && lanes < model_.lanes() && start_thread([this] { run_lane(); })) lanes++;
    return lanes ? Error{} : fail(RUNTIME, "the system gives no more threads");
}

void Batcher::submit(TaskPointer task) {
    std::lock_guard<std::mutex> held(mutex_);
    expected_++;
    unread_.push_back(std::move(task));
    arrived_.notify_one();
}

std::vector<TaskPointer> Batcher::done() {
    std::lock_guard<std::mutex> held(mutex_);
    std::vector<TaskPointer> found;
    found.swap(done_);
    return found;
}

size_t Batcher::waiting() {
    std::lock_guard<std::mutex> held(mutex_);
    return waiting_;
}

void Batcher::finish(const TaskPointer &task) {
    if (!task->refusal && !task->gone) task->refusal = model_.finish(*task);
    if (!task->refusal && !task->gone) {
        model_.write(*task);
        metrics_.answer(task->rows.size(), task->tokens, seconds_since(task->start));
    }
    {
        std::lock_guard<std::mutex> held(mutex_);
        done_.push_back(task);
    }
    ssize_t rung = write(wake_pipe_, "", 1);
    (void)rung;
}

void Batcher::read() {
    for (;;) {
        Lock lock(mutex_);
        arrived_.wait(lock, [&] { return !unread_.empty(); });
        TaskPointer task = std::move(unread_.front());
        unread_.pop_front();
        lock.unlock();
        if (!task->gone) task->refusal = model_.read(*task);
        if (!task->refusal) order(*task);
        lock.lock();
        expected_--;
        bool queued = !task->gone && !task->refusal && task->left;
        if (queued) {
            task->refusal = queue(task);
            queued = !task->refusal;
        }
        changed_.notify_all();
        lock.unlock();
        if (!queued) finish(task);
    }
}

// A request larger than the queue gets in when nothing else waits.
Refusal Batcher::queue(const TaskPointer &task) {
    if (waiting_ && waiting_ + task->left > options_.queue) {
        double seconds =
            std::min(LONGEST_RETRY, std::max(1.0, std::round(double(waiting_) * seconds_a_text_ + 0.5)));
        std::string said = std::to_string(int(seconds));
        return refuse(429, "the queue is full, try again in " + said + " s", "",
                      "Retry-After: " + said + "\r\n");
    }
    task->queued = Clock::now();
    waiting_ += task->left;
    queued_.push_back(task);
    return {};
}

void Batcher::run_lane() {
    Lock lock(mutex_);
    for (;;) {
        free_++;
        changed_.wait(lock, [&] { return !queued_.empty(); });
        gather(lock);
        Picked picked = pick();
        free_--;
        if (picked.empty()) continue;
        lock.unlock();
        work(picked);
        lock.lock();
    }
}

// Waits a little for rows that are on their way.
void Batcher::gather(Lock &lock) {
    if (queued_.empty()) return;
    auto end = queued_.front()->queued + std::chrono::microseconds(long(options_.wait * 1e3));
    while (!queued_.empty() && expected_ && waiting_ < options_.window)
        if (changed_.wait_until(lock, end) == std::cv_status::timeout) return;
}

// A row of each request in turn, until the window is full, or there is a share for each free thread.
Batcher::Picked Batcher::pick() {
    Picked picked;
    size_t share = std::min(options_.window, (waiting_ + free_ - 1) / free_);
    while (!queued_.empty() && picked.size() < share) {
        TaskPointer task = std::move(queued_.front());
        queued_.pop_front();
        if (task->gone) {
            waiting_ -= task->rows.size() - task->next;
            continue;
        }
        picked.emplace_back(task, task->order[task->next++]);
        waiting_--;
        if (task->next < task->rows.size()) queued_.push_back(std::move(task));
    }
    return picked;
}

void Batcher::work(const Picked &picked) {
    std::vector<Encoding> rows;
    std::vector<float> vectors;
    Clock::time_point start = Clock::now();
    for (auto &[task, row] : picked) {
        if (task->ends.empty()) rows.push_back(std::move(task->rows[row]));
        else if (Error error = model_.embed_joined(*task, row)) return fail_all(picked, error);
    }
    if (Error error = model_.embed(rows, vectors)) return fail_all(picked, error);
    double seconds = seconds_since(start);
    metrics_.batch(picked.size());
    const float *vector = vectors.data();
    for (auto &[task, row] : picked) {
        if (!task->ends.empty()) continue;
        model_.keep(*task, row, vector);
        vector += model_.dimension();
    }
    std::vector<TaskPointer> ready;
    {
        std::lock_guard<std::mutex> held(mutex_);
        seconds_a_text_ +=
            SMOOTHING * (seconds / double(picked.size()) / double(model_.lanes()) - seconds_a_text_);
        for (auto &[task, row] : picked) {
            if (--task->left || task->done) continue;
            task->done = true;
            ready.push_back(task);
        }
    }
    for (const TaskPointer &task : ready) finish(task);
}

void Batcher::fail_all(const Picked &picked, const Error &error) {
    std::vector<TaskPointer> failed;
    {
        std::lock_guard<std::mutex> held(mutex_);
        for (auto &[task, row] : picked) {
            if (task->done) continue;
            task->done = true;
            task->refusal = refuse(500, error.message);
            failed.push_back(task);
            auto place = std::find(queued_.begin(), queued_.end(), task);
            if (place == queued_.end()) continue;
            queued_.erase(place);
            waiting_ -= task->rows.size() - task->next;
        }
    }
    for (const TaskPointer &task : failed) finish(task);
}

}  // namespace embed
