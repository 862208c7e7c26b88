#include "gpu/provider.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/reading.h"

namespace embed {

namespace {

constexpr const char *CACHE = "{cache}", *CACHE_HINT = "name a folder of your own in EMBED_CACHE";

// Places in OrtApi; the table only grows.
enum Slot {
    CREATE_SESSION = 7,
    SET_OPTIMIZATION = 23,
    ADD_CONFIG_ENTRY = 130,
    APPEND_CUDA = 204,
    CREATE_CUDA = 205,
    UPDATE_CUDA = 206,
    RELEASE_CUDA = 208,
    REGISTER_LIBRARY = 301,
    GET_DEVICES = 303,
    APPEND_DEVICES = 304,
    DEVICE_NAME = 312,
    GET_ASSIGNMENT = 407,
    ASSIGNED_NAME = 408,
    ASSIGNED_NODES = 409,
};

// https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html
constexpr std::pair<const char *, int> LEVELS[] = {{"none", 0}, {"basic", 1}, {"extended", 2}, {"all", 99}};

constexpr std::pair<const char *, Json::Kind> NEEDED[] = {
    {"name", Json::STRING},        {"append", Json::STRING},   {"library", Json::STRING},
    {"options", Json::OBJECT},     {"session", Json::OBJECT},  {"optimization", Json::STRING},
    {"capabilities", Json::ARRAY}, {"libraries", Json::ARRAY}, {"cuda", Json::STRING},
    {"batch_size", Json::NUMBER},
};

Error damaged(const std::string &what) {
    return fail(BUNDLE, "manifest.json is damaged: runtime.provider: " + what, COPY_AGAIN);
}

Settings settings_of(const Json &object) {
    Settings found;
    for (auto &[key, value] : object.members) found.emplace_back(key, value.text);
    return found;
}

std::vector<std::string> list_of(const Json &array) {
    std::vector<std::string> found;
    for (const Json &each : array.items) found.push_back(each.text);
    return found;
}

struct Words {
    std::vector<const char *> keys, values;
    explicit Words(const Settings &settings) {
        for (auto &[key, value] : settings) {
            keys.push_back(key.c_str());
            values.push_back(value.c_str());
        }
    }
};

// Whether a group is this user's own: many systems make one for each user, and a umask that lets it write.
bool is_alone_in(gid_t id) {
    const passwd *user = getpwuid(geteuid());
    const std::string name = user && user->pw_gid == id ? user->pw_name : "";
    const group *found = name.empty() ? nullptr : getgrgid(id);
    if (!found || name != found->gr_name) return false;
    for (char **member = found->gr_mem; *member; member++)
        if (name != *member) return false;
    return true;
}

// Why a folder is none to take compiled kernels from; null: only this user and root can have put them there.
const char *why_not(const std::string &path) {
    struct stat status;
    if (stat(path.c_str(), &status)) return strerror(errno);
    if (!S_ISDIR(status.st_mode)) return strerror(ENOTDIR);
    if (status.st_uid != 0 && status.st_uid != geteuid()) return "it is another user's";
    if (status.st_mode & S_IWOTH || (status.st_mode & S_IWGRP && !is_alone_in(status.st_gid)))
        return "others may write it";
    return access(path.c_str(), W_OK) ? strerror(errno) : nullptr;
}

// The folder with those above it. It, and those from `own` letters of the path on, are this user's.
Error make_folder(const std::string &path, size_t own) {
    auto failed = [&](const std::string &folder, const char *why) {
        return fail(DEVICE, "the provider's cache " + folder + " cannot be used: " + why, CACHE_HINT);
    };
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string folder = path.substr(0, end);
        if (mkdir(folder.c_str(), 0755) && errno != EEXIST) return failed(path, strerror(errno));
        if (folder.size() >= own)
            if (const char *why = why_not(folder)) return failed(folder, why);
        if (end == path.npos) return {};
    }
}

// A folder of the user's, made where there is none.
Error cache_folder(std::string &folder) {
    const char *named = getenv("EMBED_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (!home || !*home) {
        const passwd *user = getpwuid(getuid());
        home = user ? user->pw_dir : "";
    }
    if (named && *named) folder = named;
    else folder = (cache && *cache ? std::string(cache) : std::string(home) + "/.cache") + "/edgepack";
    if (!(named && *named) && folder[0] != '/')
        return fail(DEVICE, "this user has no home folder for the provider's cache", CACHE_HINT);
    return make_folder(folder, folder.size());
}

bool is_small_number(const std::string &text) {
    return !text.empty() && text.size() <= 4 && strspn(text.c_str(), "0123456789") == text.size();
}

bool is_in_cache(const std::string &value) {
    return value.rfind(CACHE, 0) == 0 && value.find(CACHE, 1) == value.npos &&
           (value + "/").find("/../") == value.npos;
}

std::string replaced(std::string text, const std::string &word, const std::string &by) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + by.size()))
        text.replace(at, word.size(), by);
    return text;
}

bool ends_with(const std::string &text, const std::string &end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Whether the text has this word; '#' at its end: and no digit behind it.
bool says(const std::string &text, std::string word) {
    const bool number = word.back() == '#';
    if (number) word.pop_back();
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
        if (!number || at + word.size() == text.size() ||
            !isdigit(static_cast<unsigned char>(text[at + word.size()])))
            return true;
    return false;
}

// What stands before `behind`, back to a blank or a colon, without folders; empty: it is not there.
std::string name_before(const std::string &text, const char *behind) {
    const size_t end = text.find(behind);
    if (end == text.npos) return "";
    const size_t begin = text.find_last_of(" \t\n:/\"", end ? end - 1 : 0);
    return text.substr(begin == text.npos ? 0 : begin + 1, end - (begin == text.npos ? 0 : begin + 1));
}

struct Explained {
    std::vector<const char *> words;
    const char *message, *hint;
    bool allows_cpu;
};

}  // namespace

Error Provider::open(const Bundle &bundle, const Json &said) {
    for (auto [needed, kind] : NEEDED)
        if (const Json *found = said.get(needed); !found || !found->is(kind))
            return damaged(std::string("it lacks ") + needed);
    auto text = [&](const char *key) { return said.get(key) ? said.get(key)->text : std::string(); };
    name = text("name");
    append_as = text("append");
    if (append_as != "plugin" && append_as != "cuda")
        return damaged("no provider is appended as '" + append_as + "'");
    options = settings_of(*said.get("options"));
    session = settings_of(*said.get("session"));
    optimization = -1;
    for (auto [level, number] : LEVELS)
        if (text("optimization") == level) optimization = number;
    if (optimization < 0) return damaged("there is no optimization level '" + text("optimization") + "'");
    device = {text("cuda"), list_of(*said.get("capabilities")), text("remedy"), 0};
    for (auto &[key, value] : options) {
        if (key == "device_id" && !is_small_number(value)) return damaged("there is no GPU '" + value + "'");
        if (key == "device_id") device.index = atoi(value.c_str());
        if (value.find(CACHE) != value.npos && !is_in_cache(value))
            return damaged("its " + key + " is no folder of the cache");
    }
    libraries = list_of(*said.get("libraries"));
    for (const std::string &each : libraries)
        if (each.empty() || each.find('/') != each.npos)
            return damaged("'" + each + "' is no library's name");
    const Json *largest = said.get("largest_batch");
    const double usual = said.get("batch_size")->number(), most = largest ? largest->number() : 0;
    if (!(usual >= 1 && usual <= 65535 && most >= 0 && most <= 65535))
        return damaged("batch_size is no number of texts");
    batch_size = size_t(usual);
    largest_batch = size_t(most);
    directory = bundle.library.substr(0, bundle.library.rfind('/'));
    return text("library").empty() ? Error{}
                                   : bundle.listed(text("library"), "runtime.provider.library", library);
}

Error Provider::settle(Settings &settled, std::vector<std::string> &folders) const {
    settled = options;
    bool keeps = false;
    for (auto &[key, value] : options) keeps = keeps || value.find(CACHE) != value.npos;
    if (!keeps) return {};
    std::string root;
    Error error = cache_folder(root);
    for (auto &[key, value] : settled) {
        if (error || value.find(CACHE) == value.npos) continue;
        value = replaced(value, CACHE, root);
        error = make_folder(value, root.size());
        folders.push_back(value);
    }
    if (!error) return {};
    if (const char *named = getenv("EMBED_CACHE"); named && *named) return error;
    say("warning: " + error.message + "; what the GPU needs is made anew at each start\nhint: " + error.hint +
        "\n");
    folders.clear();
    settled.clear();
    for (auto &[key, value] : options)
        if (value.find(CACHE) == value.npos)
            settled.emplace_back(key, ends_with(key, "_cache_enable") ? "0" : value);
    return {};
}

OrtStatus *ProviderApi::append(const Provider &provider, const Settings &settled, OrtEnv *env,
                               OrtSessionOptions *options, bool &missing) const {
    OrtStatus *status = call(SET_OPTIMIZATION, options, provider.optimization);
    Settings entries{{"session.record_ep_graph_assignment_info", "1"}};
    entries.insert(entries.end(), provider.session.begin(), provider.session.end());
    for (auto &[key, value] : entries)
        if (!status) status = call(ADD_CONFIG_ENTRY, options, key.c_str(), value.c_str());
    if (status) return status;
    return provider.append_as == "plugin" ? append_plugin(provider, settled, env, options, missing)
                                          : append_cuda(settled, options);
}

OrtStatus *ProviderApi::append_cuda(const Settings &settled, OrtSessionOptions *options) const {
    const Words words(settled);
    void *made = nullptr;
    OrtStatus *status = call(CREATE_CUDA, &made);
    if (!status && !settled.empty())
        status = call(UPDATE_CUDA, made, words.keys.data(), words.values.data(), settled.size());
    if (!status) status = call(APPEND_CUDA, options, static_cast<const void *>(made));
    if (made) reinterpret_cast<void (*)(void *)>(table[RELEASE_CUDA])(made);
    return status;
}

// Registers the plugin's library, where it has one of its own, and appends the first device that it offers
// under the provider's name.
OrtStatus *ProviderApi::append_plugin(const Provider &provider, const Settings &settled, OrtEnv *env,
                                      OrtSessionOptions *options, bool &missing) const {
    OrtStatus *status = provider.library.empty()
                            ? nullptr
                            : call(REGISTER_LIBRARY, env, provider.name.c_str(), provider.library.c_str());
    const void *const *offered = nullptr;
    size_t count = 0;
    if (!status) status = call(GET_DEVICES, env, &offered, &count);
    if (status) return status;
    auto name_of = reinterpret_cast<const char *(*)(const void *)>(table[DEVICE_NAME]);
    const void *chosen = nullptr;
    for (size_t index = count; index-- > 0;)
        if (const char *name = name_of(offered[index]); name && provider.name == name)
            chosen = offered[index];
    if ((missing = !chosen)) return nullptr;
    const Words words(settled);
    return call(APPEND_DEVICES, options, env, static_cast<const void *const *>(&chosen), size_t(1),
                words.keys.data(), words.values.data(), settled.size());
}

OrtStatus *ProviderApi::create_session(const OrtEnv *env, const char *model, const OrtSessionOptions *options,
                                       OrtSession **session) const {
    return call(CREATE_SESSION, env, model, options, session);
}

OrtStatus *ProviderApi::assignment(const OrtSession *session, std::map<std::string, size_t> &nodes) const {
    const void *const *graphs = nullptr, *const *listed = nullptr;
    size_t count = 0;
    OrtStatus *status = call(GET_ASSIGNMENT, session, &graphs, &count);
    for (size_t index = 0; index < count && !status; index++) {
        const char *name = nullptr;
        size_t many = 0;
        status = call(ASSIGNED_NAME, graphs[index], &name);
        if (!status) status = call(ASSIGNED_NODES, graphs[index], &listed, &many);
        if (!status) nodes[name] += many;
    }
    return status;
}

Error explain(const std::string &said) {
    static const Explained KNOWN[] = {
        {{"could not deserialize engine", "failed to deserialize engine"},
         "TensorRT does not take the engine of this bundle: it is damaged, or of another version of TensorRT",
         "embed --self-test says whether a file is damaged; if none is, make the bundle again",
         true},
        {{"out of memory", "OutOfMemory", "failure 2#", "Failed to allocate memory",
          "Failed to allocate device memory", "ALLOC_FAILED"},
         "the GPU is out of memory",
         "a smaller --batch-size or --max-length needs less; nvidia-smi says who else uses the GPU",
         false},
        {{"could not build execution context", "createRuntimeConfig returned null"},
         "TensorRT cannot set up the engine on this GPU, most often for want of GPU memory",
         "nvidia-smi says who else uses the GPU",
         true},
        {{"no kernel image is available", "invalid device function", "named symbol not found", "failure 209#",
          "failure 98#", "failure 500#"},
         "the model asks for a kernel that was pruned from this bundle's provider",
         "make the bundle with --set units=all, and please report which model it was",
         false},
        {{"driver version is insufficient", "not supported in the installed CUDA driver", "failure 35#",
          "failure 36#"},
         "the NVIDIA driver here is too old for the CUDA version of the bundle",
         "install a newer driver",
         true},
        {{"no CUDA-capable device", "failure 100#"},
         "there is no NVIDIA GPU here",
         "CUDA_VISIBLE_DEVICES and the container's settings decide which GPUs are visible",
         true},
    };
    auto of_device = [](const std::string &message, std::string hint, bool allows_cpu) {
        return fail(DEVICE, message, allows_cpu ? hint + "; " + ALLOW_CPU : hint);
    };
    if (size_t at = said.find("can't find engine cache: "); at != said.npos)
        if (std::string name = name_before(said.substr(at), ". "); !name.empty())
            return of_device("the engine " + name + " is missing from the bundle",
                             "copy the whole bundle folder again, or unpack its archive again", true);
    for (const Explained &known : KNOWN)
        for (const char *word : known.words)
            if (says(said, word)) return of_device(known.message, known.hint, known.allows_cpu);
    if (std::string name = name_before(said, ": cannot open shared object file"); name.rfind("lib", 0) == 0)
        return of_device("the provider needs " + name + ", which is not on this device",
                         "install what brings it, or use a bundle made with --set layout=full", true);
    return fail(DEVICE, "the GPU does not run the model: " + said, TRY_SELF_TEST);
}

}  // namespace embed
