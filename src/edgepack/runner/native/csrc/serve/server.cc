// `embed serve`: the bundle's vectors over HTTP, on the loopback or a unix socket, as OpenAI's clients ask
// for them.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/threads.h"
#include "features/feature.h"
#include "program/about.h"
#include "program/reading.h"
#include "serve/connection.h"
#include "serve/listen.h"

namespace embed {

namespace {

constexpr rlim_t OPEN_FILES = 65536;
constexpr size_t REFUSED = 64;       // connections beyond the most, that are told so
constexpr double PAUSE_SECONDS = 1;  // until it is tried again, where the system gives no more descriptors
constexpr size_t ACCEPTED_AT_ONCE = 64;

int wake_pipe[2] = {-1, -1};  // what wakes the server: a signal, or a task that is done
std::atomic<bool> told_to_stop{false};

void wake(int) {
    int failure = errno;
    told_to_stop = true;
    ssize_t rung = write(wake_pipe[1], "", 1);
    (void)rung;
    errno = failure;
}

// What was ignored when the program was started stays so.
void answer_stops(void (*handler)(int)) {
    for (int number : {SIGINT, SIGTERM}) {
        struct sigaction old, action = {};
        if (sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        action.sa_handler = handler;
        sigaction(number, &action, nullptr);
    }
}

// Each takes a descriptor, of which a process gets 1024 unless it asks for more.
void allow_many_connections() {
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= OPEN_FILES) return;
    limit.rlim_cur = std::min(OPEN_FILES, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
}

class Server {
public:
    Server(const ServeOptions &options, Service &service, Batcher &batcher, Listener &listener)
        : options_(options), service_(service), batcher_(batcher), listener_(listener) {}

    // Accepts connections until it is told to stop, then answers what has been asked.
    void run() {
        while (listener_.descriptor >= 0 || (!connections_.empty() && Clock::now() < end_)) {
            if (told_to_stop && listener_.descriptor >= 0) stop();
            else poll_once();
        }
    }

private:
    void stop() {
        // Once more, and it ends at once.
        answer_stops(SIG_DFL);
        close_listener(listener_);
        service_.stopping = true;
        end_ = Clock::now() + std::chrono::seconds(options_.grace);
        for (auto &connection : connections_) connection->stop();
        sweep();
    }

    void poll_once() {
        bool accepting = listener_.descriptor >= 0 &&
                         connections_.size() < options_.max_connections + REFUSED &&
                         Clock::now() >= accept_again_;
        polled_.clear();
        polled_.push_back({wake_pipe[0], POLLIN, 0});
        polled_.push_back({accepting ? listener_.descriptor : -1, POLLIN, 0});
        for (auto &connection : connections_)
            polled_.push_back({connection->descriptor(), connection->events(), 0});
        size_t known = connections_.size();
        if (poll(polled_.data(), nfds_t(polled_.size()), patience()) < 0) return;
        if (polled_[0].revents) answer_done();
        if (polled_[1].revents) accept_some();
        Clock::time_point now = Clock::now();
        for (size_t at = 0; at < known; at++) {
            Connection &connection = *connections_[at];
            if (connection.closed()) continue;
            if (polled_[at + 2].revents) connection.happened(polled_[at + 2].revents, connections_.size());
            // Also of one that never pauses.
            if (now >= connection.deadline()) connection.expired();
        }
        sweep();
    }

    // Milliseconds until somebody has waited long enough.
    int patience() const {
        Clock::time_point first = Clock::now() + std::chrono::seconds(60);
        if (listener_.descriptor < 0) first = std::min(first, end_);
        else if (accept_again_ > Clock::now()) first = std::min(first, accept_again_);
        for (auto &connection : connections_)
            if (!connection->task()) first = std::min(first, connection->deadline());
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(first - Clock::now()).count();
        return int(std::max<long long>(0, left + 1));
    }

    void answer_done() {
        char some[256];
        while (read(wake_pipe[0], some, sizeof some) > 0) {
        }
        for (const TaskPointer &task : batcher_.done())
            if (task->connection) task->connection->finish(task, connections_.size());
    }

    void accept_some() {
        for (size_t count = 0; count < ACCEPTED_AT_ONCE; count++) {
            int made = accept4(listener_.descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK), yes = 1;
            if (made < 0) {
                if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                    accept_again_ = Clock::now() + std::chrono::milliseconds(int(PAUSE_SECONDS * 1e3));
                return;
            }
            setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            bool full = connections_.size() >= options_.max_connections;
            connections_.push_back(std::make_unique<Connection>(made, service_, options_, full));
        }
    }

    void sweep() {
        auto gone = [](const std::unique_ptr<Connection> &connection) { return connection->closed(); };
        connections_.erase(std::remove_if(connections_.begin(), connections_.end(), gone),
                           connections_.end());
    }

    const ServeOptions &options_;
    Service &service_;
    Batcher &batcher_;
    Listener &listener_;
    Clock::time_point end_, accept_again_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<pollfd> polled_;
};

Error work_until_stopped(const Bundle &bundle, const ServeOptions &options, Listener &listener) {
    // Never taken apart: threads use them until the process ends.
    ServedModel &model = *new ServedModel;
    if (Error error = model.open(bundle, options)) return error;
    if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK)) return fail(RUNTIME, "the system gives no pipe");
    Metrics &metrics = *new Metrics;
    Batcher &batcher = *new Batcher(model, options, metrics, wake_pipe[1]);
    if (Error error = batcher.start()) return error;
    Service &service = *new Service(bundle, options, model, metrics, batcher);
    signal(SIGPIPE, SIG_IGN);
    answer_stops(wake);
    const int descriptor = listener.descriptor;
    say("listening on " + address_of(descriptor) + "\n");
    Error wrong;
    const std::function<void()> ask = [&] {
        wrong = ask_listener(descriptor, options.token, model.probe());
        wake(0);
    };
    Server server(options, service, batcher, listener);
    if (!options.check_server) return server.run(), Error{};
    {
        Aside asking(ask);
        server.run();
    }
    return wrong;
}

// Serves until told to stop.
Error serve(const Options &given, const Bundle &bundle, bool &done) {
    done = true;
    ServeOptions &options = *new ServeOptions{given, {}};
    if (Error error = complete_options(options)) return error;
    allow_many_connections();
    Listener listener;
    if (Error error = open_listener(options, listener)) return error;
    Error error = work_until_stopped(bundle, options, listener);
    close_listener(listener);
    return error;
}

}  // namespace

extern const Feature SERVE_FEATURE = [] {
    Feature feature;
    feature.name = "serve";
    feature.commands = SERVE;
    feature.run = serve;
    return feature;
}();

}  // namespace embed
