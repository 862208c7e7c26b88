#include "serve/listen.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace embed {

namespace {

constexpr int BACKLOG = 1024;

struct Address {
    sockaddr_storage storage = {};
    socklen_t size = 0;
    sockaddr *any() { return reinterpret_cast<sockaddr *>(&storage); }
};

Error cannot_listen(bool local, const std::string &place, const std::string &why) {
    return fail(LISTEN, "cannot listen on " + place + ": " + why,
                local ? "" : "--port 0 takes any port that is free");
}

// Names other than localhost are not looked up: what looks them up is larger than the server.
bool read_address(const std::string &host, size_t port, Address &address) {
    auto four = reinterpret_cast<sockaddr_in *>(&address.storage);
    auto six = reinterpret_cast<sockaddr_in6 *>(&address.storage);
    const char *name = host == "localhost" ? "127.0.0.1" : host.c_str();
    if (inet_pton(AF_INET, name, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(uint16_t(port));
        return address.size = sizeof *four, true;
    }
    if (inet_pton(AF_INET6, name, &six->sin6_addr) != 1) return false;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(uint16_t(port));
    return address.size = sizeof *six, true;
}

bool path_address(const std::string &path, Address &address) {
    auto local = reinterpret_cast<sockaddr_un *>(&address.storage);
    if (path.size() >= sizeof local->sun_path) return errno = ENAMETOOLONG, false;
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, path.c_str(), path.size() + 1);
    return address.size = socklen_t(offsetof(sockaddr_un, sun_path) + path.size() + 1), true;
}

// A socket that nobody listens on any more: connect() refuses files of any other kind, too.
bool is_stale(Address &address, const std::string &path) {
    struct stat status;
    if (lstat(path.c_str(), &status) || !S_ISSOCK(status.st_mode)) return false;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool stale = probe >= 0 && connect(probe, address.any(), address.size) != 0 && errno == ECONNREFUSED;
    if (probe >= 0) close(probe);
    return stale;
}

}  // namespace

Error open_listener(const ServeOptions &options, Listener &listener) {
    bool local = !options.socket_path.empty();
    std::string place = local ? options.socket_path : options.host + " port " + std::to_string(options.port);
    Address address;
    if (local ? !path_address(options.socket_path, address)
              : !read_address(options.host, options.port, address))
        return cannot_listen(local, place, local ? strerror(errno) : "it is no IP address, nor localhost");
    int made = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    listener.descriptor = made;
    if (made < 0) return cannot_listen(local, place, strerror(errno));
    int yes = 1, bound;
    if (local) {
        if (is_stale(address, options.socket_path)) unlink(options.socket_path.c_str());
        // Only its owner may use it.
        mode_t mask = umask(0177);
        bound = bind(made, address.any(), address.size);
        umask(mask);
        struct stat status;
        if (!bound && !lstat(options.socket_path.c_str(), &status))
            listener = {made, options.socket_path, status.st_dev, status.st_ino};
    } else {
        setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        bound = bind(made, address.any(), address.size);
    }
    if (bound || listen(made, BACKLOG)) {
        int failure = errno;
        close_listener(listener);
        return cannot_listen(local, place, strerror(failure));
    }
    return {};
}

void close_listener(Listener &listener) {
    struct stat status;
    // Before it is closed: until then no other file has its number.
    if (!listener.path.empty() && !lstat(listener.path.c_str(), &status) &&
        status.st_dev == listener.device && status.st_ino == listener.number)
        unlink(listener.path.c_str());
    if (listener.descriptor >= 0) close(listener.descriptor);
    listener = {};
}

std::string address_of(int listener) {
    Address address;
    address.size = sizeof address.storage;
    getsockname(listener, address.any(), &address.size);
    char text[INET6_ADDRSTRLEN] = "";
    if (address.storage.ss_family == AF_UNIX)
        return std::string("unix:") + reinterpret_cast<sockaddr_un *>(&address.storage)->sun_path;
    auto four = reinterpret_cast<sockaddr_in *>(&address.storage);
    auto six = reinterpret_cast<sockaddr_in6 *>(&address.storage);
    bool is_six = address.storage.ss_family == AF_INET6;
    inet_ntop(address.storage.ss_family, is_six ? static_cast<void *>(&six->sin6_addr) : &four->sin_addr,
              text, sizeof text);
    std::string port = std::to_string(ntohs(is_six ? six->sin6_port : four->sin_port));
    return is_six ? "http://[" + std::string(text) + "]:" + port : "http://" + std::string(text) + ":" + port;
}

Error ask_listener(int listener, const std::string &token, const Probe &probe) {
    Address address;
    address.size = sizeof address.storage;
    getsockname(listener, address.any(), &address.size);
    const std::string body = probe.body;
    std::string asked =
        "POST " + std::string(probe.path) +
        " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + token +
        "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
        body;
    std::string answer;
    char chunk[4096];
    int client = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool sent = client >= 0 && connect(client, address.any(), address.size) == 0 &&
                send(client, asked.data(), asked.size(), MSG_NOSIGNAL) == ssize_t(asked.size());
    for (ssize_t got; sent && (got = recv(client, chunk, sizeof chunk, 0)) != 0;) {
        if (got > 0) answer.append(chunk, size_t(got));
        else if (errno != EINTR) break;
    }
    if (client >= 0) close(client);
    if (answer.compare(0, 13, "HTTP/1.1 200 ") == 0 && answer.find(probe.found) != std::string::npos)
        return {};
    return fail(RUNTIME, "the server does not answer itself: " +
                             answer.substr(answer.size() > 200 ? answer.size() - 200 : 0));
}

}  // namespace embed
