#include "base/threads.h"

#include <deque>

namespace embed {

namespace {

void *call(void *work) {
    (*static_cast<const std::function<void()> *>(work))();
    return nullptr;
}

}  // namespace

Aside::Aside(const std::function<void()> &work)
    : started_(pthread_create(&thread_, nullptr, call, const_cast<std::function<void()> *>(&work)) == 0) {}

Aside::~Aside() {
    if (started_) pthread_join(thread_, nullptr);
}

void on_threads(size_t count, const std::function<void()> &work) {
    std::deque<Aside> others;
    while (others.size() + 1 < count) others.emplace_back(work);
    work();
}

}  // namespace embed
