// Threads that are optional: where the system gives no more of them, work goes on without.
#pragma once
#include <functional>
#include <pthread.h>

namespace embed {

// Does `work`, which must outlive it, on a thread of its own, and waits for its end when it goes itself.
class Aside {
public:
    explicit Aside(const std::function<void()> &work);
    Aside(const Aside &) = delete;
    Aside &operator=(const Aside &) = delete;
    ~Aside();

private:
    pthread_t thread_{};
    bool started_;
};

// Does `work` on so many threads at once, this one among them.
void on_threads(size_t count, const std::function<void()> &work);

}  // namespace embed
