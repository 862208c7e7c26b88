#include "serve/metrics.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace embed {

namespace {

void heading(const char *name, const char *kind, const char *help, std::string &out) {
    out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + kind + "\n";
}

void sample(const char *name, const char *form, double value, std::string &out) {
    char digits[64];
    snprintf(digits, sizeof digits, form, value);
    out += std::string(name) + " " + digits + "\n";
}

// Bytes; 0 where the system does not say.
double resident_memory() {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    if (file && fscanf(file, "%*u %lu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return double(pages) * double(sysconf(_SC_PAGESIZE));
}

}  // namespace

void Histogram::observe(double value) {
    size_t at = 0;
    while (at < bounds.size() && value > strtod(bounds[at], nullptr)) at++;
    counts[at]++;
    sum += value;
}

void Histogram::write(const char *name, const char *help, std::string &out) const {
    size_t total = 0;
    heading(name, "histogram", help, out);
    for (size_t at = 0; at < counts.size(); at++) {
        total += counts[at];
        out += std::string(name) + "_bucket{le=\"" + (at < bounds.size() ? bounds[at] : "+Inf") + "\"} " +
               std::to_string(total) + "\n";
    }
    sample((std::string(name) + "_sum").c_str(), "%.6f", sum, out);
    out += std::string(name) + "_count " + std::to_string(total) + "\n";
}

timespec Metrics::now() {
    timespec time = {};
    clock_gettime(CLOCK_REALTIME, &time);
    return time;
}

void Metrics::count(const std::string &path, int status) {
    std::lock_guard<std::mutex> held(mutex_);
    requests_[{path, status}]++;
}

void Metrics::batch(size_t texts) {
    std::lock_guard<std::mutex> held(mutex_);
    batches_.observe(double(texts));
}

void Metrics::answer(size_t texts, size_t tokens, double seconds) {
    std::lock_guard<std::mutex> held(mutex_);
    texts_ += texts;
    tokens_ += tokens;
    seconds_.observe(seconds);
}

std::string Metrics::text(size_t waiting, size_t connections) {
    std::lock_guard<std::mutex> held(mutex_);
    std::string out;
    heading("embed_requests_total", "counter", "Answers by path and status.", out);
    for (auto &[key, count] : requests_)
        out += "embed_requests_total{path=\"" + key.first + "\",status=\"" + std::to_string(key.second) +
               "\"} " + std::to_string(count) + "\n";
    heading("embed_texts_total", "counter", "Texts embedded.", out);
    sample("embed_texts_total", "%.0f", double(texts_), out);
    heading("embed_tokens_total", "counter", "Tokens embedded.", out);
    sample("embed_tokens_total", "%.0f", double(tokens_), out);
    seconds_.write("embed_request_seconds", "Time from a read request for vectors to its answer.", out);
    batches_.write("embed_batch_texts", "Texts that went through the model together.", out);
    heading("embed_queue_texts", "gauge", "Texts that wait for the model.", out);
    sample("embed_queue_texts", "%g", double(waiting), out);
    heading("embed_connections", "gauge", "Open connections.", out);
    sample("embed_connections", "%g", double(connections), out);
    if (double resident = resident_memory(); resident > 0) {
        heading("process_resident_memory_bytes", "gauge", "Resident memory.", out);
        sample("process_resident_memory_bytes", "%.0f", resident, out);
    }
    heading("process_start_time_seconds", "gauge", "Start of the program, Unix time.", out);
    sample("process_start_time_seconds", "%.3f", double(started_.tv_sec) + double(started_.tv_nsec) / 1e9,
           out);
    return out;
}

}  // namespace embed
