// What the server has done, in Prometheus' text format:
// https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace embed {

// Counts by upper bound.
struct Histogram {
    std::vector<const char *> bounds;
    std::vector<size_t> counts = std::vector<size_t>(bounds.size() + 1);
    double sum = 0;

    void observe(double value);
    void write(const char *name, const char *help, std::string &out) const;
};

// May be told by any thread.
class Metrics {
public:
    void count(const std::string &path, int status);
    void batch(size_t texts);
    void answer(size_t texts, size_t tokens, double seconds);
    // The whole page, with the gauges.
    std::string text(size_t waiting, size_t connections);

private:
    std::mutex mutex_;
    timespec started_ = now();
    std::map<std::pair<std::string, int>, size_t> requests_;
    size_t texts_ = 0, tokens_ = 0;
    Histogram seconds_{{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0"}};
    Histogram batches_{{"1", "2", "4", "8", "16", "32"}};

    static timespec now();
};

}  // namespace embed
