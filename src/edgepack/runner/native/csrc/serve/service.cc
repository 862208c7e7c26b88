#include "serve/service.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <sys/stat.h>

#include "program/about.h"

namespace embed {

namespace {

// Bytes of answers for each of --max-bodies: numbers are longer than what they are of.
constexpr uint64_t ANSWERS = 4;

struct Path {
    const char *name;
    Api api;
};

// Those without an API are asked with GET.
constexpr Path PATHS[] = {
    {"/v1/embeddings", Api::OPENAI},
    {"/api/embed", Api::OLLAMA},
    {"/api/embeddings", Api::OLLAMA_ONE},
    {"/embed", Api::TEI},
    {"/embed_sparse", Api::TEI_SPARSE},
    {"/v1/rerank", Api::RERANK},
    {"/v1/models", Api::NONE},
    {"/api/tags", Api::NONE},
    {"/health", Api::NONE},
    {"/info", Api::NONE},
    {"/metrics", Api::NONE},
};

const Path *path_of(const std::string &name) {
    for (const Path &path : PATHS)
        if (name == path.name) return &path;
    return nullptr;
}

const char *methods_of(const Path &path) { return path.api == Api::NONE ? "GET, HEAD" : "POST"; }

std::string lowered(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(tolower(c)); });
    return text;
}

std::string trimmed(const std::string &text) {
    size_t start = text.find_first_not_of(" \t");
    return start == std::string::npos ? "" : text.substr(start, text.find_last_not_of(" \t") + 1 - start);
}

bool is_address(const std::string &name) {
    unsigned char address[16];
    if (name.size() > 2 && name[0] == '[' && name.back() == ']')
        return inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), address) == 1;
    return inet_pton(AF_INET, name.c_str(), address) == 1;
}

void without_dots(std::string &name) {
    while (!name.empty() && name.back() == '.') name.pop_back();
}

std::string json_of(const std::string &text) {
    std::string out;
    write_json_string(text, out, false);
    return out;
}

}  // namespace

Service::Service(const Bundle &bundle, const ServeOptions &options, const ServedModel &model,
                 Metrics &metrics, Batcher &batcher)
    : bundle_(bundle),
      options_(options),
      model_(model),
      metrics_(metrics),
      batcher_(batcher),
      left_(options.max_bodies),
      unread_(ANSWERS * options.max_bodies) {}

Refusal Service::take(size_t size, size_t more) {
    if (size + more > options_.max_body)
        return embed::refuse(413, "the body is larger than " + std::to_string(options_.max_body) + " bytes");
    if (more > left_)
        return embed::refuse(503, "the requests being read take all the memory that --max-bodies allows", "",
                             "Retry-After: 1\r\n");
    left_ -= more;
    return {};
}

// Against pages that let their own name lead to this machine (DNS rebinding). An address is no name that
// leads elsewhere tomorrow; who knows the token, or may open the unix socket, may call it anything. HTTP/1.0
// needs no name, and no browser speaks it.
bool Service::is_known(std::string host) const {
    if (!options_.token.empty() || !options_.socket_path.empty() || host.empty()) return true;
    size_t colon = host.rfind(':');
    if (colon != std::string::npos && host.find_first_not_of("0123456789", colon + 1) == std::string::npos)
        host.resize(colon);
    host = lowered(std::move(host));
    without_dots(host);
    auto is = [&](std::string name) {
        name = lowered(std::move(name));
        without_dots(name);
        return name == host;
    };
    constexpr std::string_view local = ".localhost";
    bool below =
        host.size() > local.size() && std::string_view(host).substr(host.size() - local.size()) == local;
    return below || is("localhost") || is(options_.host) ||
           std::any_of(options_.hosts.begin(), options_.hosts.end(), is) || is_address(host);
}

bool Service::is_allowed(const std::string &authorization) const {
    size_t space = authorization.find(' ');
    if (space == std::string::npos || lowered(authorization.substr(0, space)) != "bearer") return false;
    std::string given = trimmed(authorization.substr(space));
    // In the same time wherever they differ.
    unsigned char differs = given.size() != options_.token.size();
    for (size_t at = 0; at < given.size(); at++)
        differs |= uint8_t(given[at] ^ options_.token[at % options_.token.size()]);
    return !differs;
}

Refusal Service::check(const Request &request) const {
    if (!is_known(request.host)) return embed::refuse(421, "unknown host name; --allow-host adds one");
    const Path *path = path_of(request.path);
    if (!path)
        return embed::refuse(404, "no such path: " + request.path + "; embeddings are at /v1/embeddings");
    if (request.method == Request::OPTIONS && !options_.origins.empty() && !request.origin.empty()) return {};
    bool posted = path->api != Api::NONE;
    if (posted ? request.method != Request::POST
               : request.method != Request::GET && request.method != Request::HEAD)
        return embed::refuse(405, request.path + (posted ? " takes POST" : " takes GET"), "",
                             std::string("Allow: ") + methods_of(*path) + "\r\n");
    if (!options_.token.empty() && request.path != "/health" && !is_allowed(request.authorization))
        return embed::refuse(401, "a bearer token is required", "", "WWW-Authenticate: Bearer\r\n");
    // A page of any site may send what is not said to be JSON, without being asked whether it may.
    if (posted && lowered(trimmed(request.type.substr(0, request.type.find(';')))) != "application/json")
        return embed::refuse(415, "the request must have Content-Type: application/json");
    return {};
}

std::string Service::allow(const std::string &origin) const {
    auto listed = [&](const char *wanted) {
        return std::find(options_.origins.begin(), options_.origins.end(), wanted) != options_.origins.end();
    };
    bool any = listed("*");
    if (origin.empty() || (!any && !listed(origin.c_str()))) return "";
    return "Access-Control-Allow-Origin: " + (any ? "*" : origin) + "\r\nVary: Origin\r\n";
}

Response Service::refuse(const std::string &path, const Refusal &refusal) {
    const Path *known = path_of(path);
    Api api = known ? known->api : Api::NONE;
    if (api == Api::NONE && path.compare(0, 5, "/api/") == 0) api = Api::OLLAMA;
    Response response;
    response.status = write_refusal(api, refusal, response.body);
    response.headers = refusal.headers;
    metrics_.count(known ? path : "other", response.status);
    return response;
}

// What a browser asks before it lets a page of another origin ask.
Response Service::preflight(const Request &request) {
    if (allow(request.origin).empty())
        return refuse(
            request.path,
            embed::refuse(403, "pages of this origin may not use the server; --cors ORIGIN allows one"));
    metrics_.count(request.path, 204);
    Response response;
    response.status = 204;
    // Clients send some of their own; none of them means anything here.
    std::string asked = request.asked_headers.empty() ? "authorization, content-type" : request.asked_headers;
    response.headers = std::string("Access-Control-Allow-Methods: ") + methods_of(*path_of(request.path)) +
                       "\r\nAccess-Control-Allow-Headers: " + asked + "\r\nAccess-Control-Max-Age: 600\r\n";
    return response;
}

Response Service::respond(Request &request, size_t connections, TaskPointer &task) {
    if (request.method == Request::OPTIONS) return preflight(request);
    Response response;
    if (Api api = path_of(request.path)->api; api != Api::NONE) {
        task = std::make_shared<Task>();
        task->api = api;
        task->body.swap(request.body);
        batcher_.submit(task);
        return response;
    }
    if (request.path == "/health") {
        response.status = stopping ? 503 : 200;
        response.body = stopping ? "{\"status\": \"stopping\"}\n" : "{\"status\": \"ok\"}\n";
    } else if (request.path == "/info") {
        response.body = info();
    } else if (request.path == "/metrics") {
        response.body = metrics_.text(batcher_.waiting(), connections);
        response.kind = "text/plain; version=0.0.4; charset=utf-8";
    } else if (request.path == "/api/tags") {
        response.body = tags();
    } else {
        response.body = "{\"object\": \"list\", \"data\": [{\"id\": " + json_of(model_.name()) +
                        ", \"object\": \"model\", \"owned_by\": \"bundle\", \"created\": 0}]}\n";
    }
    metrics_.count(request.path, response.status);
    return response;
}

Response Service::finish(Task &task, const std::string &path) {
    if (task.refusal) return refuse(path, task.refusal);
    Response response;
    response.body.swap(task.answer);
    metrics_.count(path, 200);
    return response;
}

std::string Service::info() const {
    Json said = bundle_info(bundle_), server;
    server.kind = Json::OBJECT;
    const std::pair<const char *, double> numbers[] = {{"queue", double(options_.queue)},
                                                       {"window", double(options_.window)},
                                                       {"wait", options_.wait},
                                                       {"max_body", double(options_.max_body)},
                                                       {"max_bodies", double(options_.max_bodies)},
                                                       {"max_tokens", double(options_.max_tokens)},
                                                       {"max_connections", double(options_.max_connections)},
                                                       {"timeout", double(options_.timeout)}};
    for (auto [name, number] : numbers) server.members.emplace_back(name, json_number(number, "%.12g"));
    add_placement(model_.placement(), said);
    said.members.emplace_back("server", std::move(server));
    std::string out;
    write_json(said, out, 0, false);
    return out + "\n";
}

// The one model, as Ollama lists it.
std::string Service::tags() const {
    std::string file = bundle_.text("model", "file"), size = "0", digest, name = json_of(model_.name());
    char changed[32];
    struct stat status = {};
    struct tm time = {};
    if (const Json *files = bundle_.manifest.get("files"))
        for (const Json &entry : files->items) {
            const Json *path = entry.get("path"), *bytes = entry.get("size"), *sha256 = entry.get("sha256");
            if (!path || path->text != file || !bytes || !sha256) continue;
            size = bytes->text;
            digest = sha256->text;
        }
    stat(bundle_.model.c_str(), &status);
    gmtime_r(&status.st_mtime, &time);
    strftime(changed, sizeof changed, "%Y-%m-%dT%H:%M:%SZ", &time);
    return "{\"models\": [{\"name\": " + name + ", \"model\": " + name + ", \"modified_at\": \"" + changed +
           "\", \"size\": " + size + ", \"digest\": " + json_of(digest) +
           ", \"details\": {\"parent_model\": \"\", \"format\": " + json_of(bundle_.text("model", "format")) +
           ", \"family\": \"\", \"families\": null, \"parameter_size\": \"\", \"quantization_level\": " +
           json_of(bundle_.text("model", "precision")) + "}}]}\n";
}

}  // namespace embed
