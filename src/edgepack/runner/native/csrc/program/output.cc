#include "program/output.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stream.h"

namespace embed {

namespace {

// The name that a signal's handler removes.
char unfinished[4096];

void end(int number) {
    if (unfinished[0]) unlink(unfinished);
    signal(number, SIG_DFL);
    raise(number);
}

void aborted(int) {
    static const char text[] =
        "error: the runtime library aborted while running the model\n"
        "hint: run --self-test to find the damaged file of the bundle\n";
    if (unfinished[0]) unlink(unfinished);
    ssize_t done = ::write(2, text, sizeof text - 1);
    _exit(done >= 0 ? RUNTIME : RUNTIME);
}

void cut_short(int) {
    static const char text[] =
        "error: a file of the bundle was truncated, or became unreadable, while the program ran\n"
        "hint: replace the whole bundle folder by a rename, never single files in it\n";
    if (unfinished[0]) unlink(unfinished);
    ssize_t done = ::write(2, text, sizeof text - 1);
    _exit(done >= 0 ? BUNDLE : BUNDLE);
}

Error failed(int failure) {
    return fail(OUTPUT, std::string("cannot write the output: ") + strerror(failure));
}

// A path without links; that of a file that is not there yet is its folder's.
std::string real_path(const std::string &path) {
    char *found = realpath(path.c_str(), nullptr);
    std::string real;
    if (found) {
        real = found;
        free(found);
        return real;
    }
    size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0) return path;
    return real_path(path.substr(0, slash)) + path.substr(slash);
}

}  // namespace

Error print(const std::string &text, const std::string *path) {
    Output output;
    if (Error error = output.open(path)) return error;
    output.write(text);
    return output.finish();
}

void listen_to_signals() {
    // A reader that goes away (`| head`) ends us without a word.
    signal(SIGPIPE, SIG_DFL);
    // A file that may not grow (`ulimit -f`) is an error of writing, as a full disk is.
    signal(SIGXFSZ, SIG_IGN);
    for (int number : {SIGINT, SIGTERM}) {
        struct sigaction old;
        // What was ignored when we were started (nohup, a shell's background job) stays so.
        if (sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        struct sigaction action = {};
        action.sa_handler = end;
        action.sa_flags = int(SA_RESETHAND | SA_NODEFER);
        sigaction(number, &action, nullptr);
    }
    // A library built without exceptions aborts where another would throw.
    signal(SIGABRT, aborted);
    // The model and the tokenizer are mapped.
    signal(SIGBUS, cut_short);
}

Output::~Output() {
    if (!temporary_.empty()) {
        if (descriptor_ >= 0) close(descriptor_);
        unlink(temporary_.c_str());
        unfinished[0] = 0;
    }
}

Error Output::open(const std::string *path, unsigned mode) {
    struct stat status;
    if (!path) {
        descriptor_ = 1;
        if (fstat(1, &status))
            return fail(OUTPUT, std::string("cannot write to standard output: ") + strerror(errno));
        return {};
    }
    std::string place = *path;
    const bool there = stat(path->c_str(), &status) == 0;
    if (there && !S_ISREG(status.st_mode)) {
        descriptor_ = ::open(place.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    } else {
        final_ = real_path(place);
        // What replaces a file is not read by more people than that was.
        if (there) mode = status.st_mode;
        // Not by the process's number, which in a container is that of one that was killed.
        auto now = std::chrono::steady_clock::now().time_since_epoch();
        std::string beside = final_ + ".part-" + std::to_string(now.count());
        // Known to the handler before it is there: a signal may come between the two.
        if (beside.size() < sizeof unfinished) memcpy(unfinished, beside.c_str(), beside.size() + 1);
        descriptor_ = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode & 0666) | 0200);
        if (descriptor_ >= 0) temporary_ = beside;
        else unfinished[0] = 0;
    }
    return descriptor_ < 0 ? fail(OUTPUT, "cannot write to " + place + ": " + strerror(errno)) : Error{};
}

void Output::drain() {
    if (!failure_) failure_ = write_all(descriptor_, pending_);
    pending_.clear();
}

Error Output::flush() {
    drain();
    return failure_ ? failed(failure_) : Error{};
}

Error Output::finish() {
    if (Error error = flush()) return error;
    if (temporary_.empty()) return {};
    int closed = close(descriptor_);
    descriptor_ = -1;
    if (closed != 0 || rename(temporary_.c_str(), final_.c_str()) != 0) return failed(errno);
    temporary_.clear();
    unfinished[0] = 0;
    return {};
}

bool Output::can_patch() const {
    return lseek(descriptor_, 0, SEEK_CUR) >= 0 && !(fcntl(descriptor_, F_GETFL) & O_APPEND);
}

off_t Output::position() { return lseek(descriptor_, 0, SEEK_CUR) + off_t(pending_.size()); }

Error Output::patch(off_t place, std::string_view bytes) {
    if (Error error = flush()) return error;
    // Where whoever writes next into the same file begins stays as it is.
    ssize_t done;
    do done = pwrite(descriptor_, bytes.data(), bytes.size(), place);
    while (done < 0 && errno == EINTR);
    return done == ssize_t(bytes.size()) ? Error{} : failed(errno);
}

}  // namespace embed
