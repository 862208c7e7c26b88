#include "embedder/bundle.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "encoder/encoder.h"

namespace embed {

namespace {

// Bytes, as edgepack's verifier has it, and values.
constexpr size_t MOST_OF_MANIFEST = 16 << 20, MOST_VALUES = 1 << 20;

template <class Take> int read_all(const std::string &path, uint64_t most, Take take) {
    File file;
    if (int failure = file.open(path)) return failure;
    if (file.size() > most) return EFBIG;
    std::vector<char> chunk(1 << 16);
    for (uint64_t place = 0; place < file.size(); place += chunk.size()) {
        const size_t size = size_t(std::min<uint64_t>(file.size() - place, chunk.size()));
        if (!file.read(place, chunk.data(), size)) return EIO;
        take(chunk.data(), size);
    }
    return 0;
}

// A path without links; nothing where it leads nowhere.
std::string real(const std::string &path) {
    char *found = realpath(path.c_str(), nullptr);
    std::string name = found ? found : "";
    free(found);
    return name;
}

bool is_below(const std::string &folder, const std::string &path) {
    return !folder.empty() && path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 &&
           path[folder.size()] == '/';
}

// Whether a name in the manifest is of a file in the bundle's folder, however it is written.
bool is_inside(const std::string &name) {
    std::string all = "/" + name + "/";
    std::replace(all.begin(), all.end(), '\\', '/');  // as Windows takes it
    return !name.empty() && name[0] != '/' && all.find("/../") == all.npos;
}

Error unlisted(const std::string &path) {
    return fail(BUNDLE, path + " is not in the manifest, or not as what it is", COPY_AGAIN);
}

Error may_change(const std::string &path) {
    return fail(BUNDLE, path + " has a mode with which anyone may change it, or it runs with another's rights",
                COPY_AGAIN);
}

Error says_not(const std::string &what) { return fail(BUNDLE, "manifest.json lacks " + what, COPY_AGAIN); }

}  // namespace

Error read_file(const std::string &path, std::string &content, size_t most) {
    content.clear();
    const int failure =
        read_all(path, most, [&](const char *data, size_t size) { content.append(data, size); });
    return failure ? fail(BUNDLE, "cannot read " + path + ": " + strerror(failure), COPY_AGAIN) : Error{};
}

Error Bundle::open(const std::string &folder) {
    directory = folder;
    if (Error error = read_manifest()) return error;
    if (Error error = file("model", "file", model)) return error;
    if (Error error = file("model", "tokenizer", tokenizer)) return error;
    if (!ENCODER.instead)
        if (Error error = file("runtime", "library", library)) return error;
    for (auto [name, place] : {std::pair{"dimension", &dimension}, std::pair{"max_length", &max_length}}) {
        const Json *found = manifest.at("model", name);
        if (!found) return says_not(std::string("model.") + name);
        double number = found->number();
        if (!(number >= 1 && number <= 1 << 24 && number == std::floor(number)))
            return fail(
                BUNDLE,
                std::string("manifest.json is damaged: model.") + name + " is no number of tokens or values",
                COPY_AGAIN);
        *place = size_t(number);
    }
    const Json *dependent = manifest.at("model", "batch_dependent");
    if (!dependent) return says_not("model.batch_dependent");
    batch_dependent = dependent->truth();
    return {};
}

Error Bundle::read_manifest() {
    std::string path = directory + "/manifest.json", content, message;
    if (Error error = read_file(path, content, MOST_OF_MANIFEST)) {
        error.hint =
            "the program must stay in the folder of its bundle; one that is a file with it has to be whole";
        return error;
    }
    Sha256 digest;
    digest.update(reinterpret_cast<const uint8_t *>(content.data()), content.size());
    manifest_digest = digest.finish();
    size_t position = 0;
    if (!parse_json(content, manifest, message, position, MOST_VALUES))
        return fail(BUNDLE,
                    path + " is damaged: " + message + " at character " + std::to_string(position + 1),
                    COPY_AGAIN);
    const Json *schema = manifest.get("schema");
    if (!schema || schema->text != "1")
        return fail(BUNDLE,
                    path + (schema ? " has schema " + schema->text : " has no schema") +
                        "; this program reads schema 1",
                    "use the program that came with the bundle");
    return {};
}

std::string Bundle::text(std::string_view section, std::string_view name) const {
    const Json *found = section.empty() ? manifest.get(name) : manifest.at(section, name);
    return found && found->is(Json::STRING) ? found->text : "";
}

Error Bundle::file(const char *section, const char *name, std::string &path) const {
    const Json *named = manifest.at(section, name);
    const std::string key = std::string(section) + "." + name;
    return named ? listed(named->text, key, path) : says_not(key);
}

Error Bundle::listed(const std::string &named, const std::string &key, std::string &path) const {
    const Json *files = manifest.get("files");
    if (!files) return says_not("files");
    for (const Json &entry : files->items)
        if (const Json *found = entry.get("path"); found && found->text == named)
            return check_size(entry, path);
    return fail(BUNDLE, "manifest.json names " + named + " as " + key + " but does not list it", COPY_AGAIN);
}

Error Bundle::check_size(const Json &entry, std::string &path) const {
    const Json *name = entry.get("path"), *size = entry.get("size");
    if (!name || !name->is(Json::STRING) || !size || !size->is(Json::NUMBER))
        return fail(BUNDLE, "manifest.json is damaged: an entry under files is not complete", COPY_AGAIN);
    if (!is_inside(name->text))
        return fail(BUNDLE, "manifest.json is damaged: " + name->text + " is no file of the bundle",
                    COPY_AGAIN);
    path = directory + "/" + name->text;
    uint64_t found = 0;
    if (int failure = size_of(path, found))
        return fail(BUNDLE, name->text + " is missing from the bundle: " + strerror(failure), COPY_AGAIN);
    if (std::to_string(found) != size->text)
        return fail(BUNDLE,
                    name->text + " is damaged: " + std::to_string(found) + " bytes instead of " + size->text,
                    COPY_AGAIN);
    return {};
}

Error Bundle::check_contents(size_t &files) const {
    files = 0;
    const Json *listed = manifest.get("files");
    if (!listed) return says_not("files");
    for (const Json &entry : listed->items) {
        files++;
        if (Error error = check_content(entry)) return error;
    }
    return {};
}

Error Bundle::check_data() const {
    std::string names[] = {text("model", "file"), text("model", "cpu_file"), text("model", "tokenizer"),
                           text("model", "head"), text("runner", "module")};
    // Each once: a list that names one again and again would take days.
    for (const std::string &name : names)
        for (const Json &entry : manifest.get("files")->items)
            if (const Json *path = entry.get("path"); path && path->text == name) {
                if (Error error = check_content(entry)) return error;
                break;
            }
    return {};
}

Error Bundle::check_strangers(const char *beside) const {
    std::map<std::string, mode_t> known{{"manifest.json", S_IFREG}, {beside, S_IFREG}};
    for (const Json &entry : manifest.get("files")->items) {
        const Json *mode = entry.get("mode");
        const std::string &path = entry.get("path")->text;
        known[path] = mode && mode->text == "link" ? S_IFLNK : S_IFREG;
        for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1))
            known[path.substr(0, slash)] = S_IFDIR;
    }
    struct stat status;
    if (stat(directory.c_str(), &status) || !S_ISREG(status.st_mode)) return walk("", known);
    if (status.st_mode & (S_IWOTH | S_ISUID | S_ISGID)) return may_change(directory);
    known.erase(text("runner", "program"));  // no member
    for (const std::string &name : members_of(directory))
        if (auto listed = known.find(name); listed == known.end() || listed->second != S_IFREG)
            return unlisted(name);
        else known.erase(listed);
    return {};
}

Error Bundle::walk(const std::string &below, const std::map<std::string, mode_t> &known) const {
    DIR *folder = opendir((directory + "/" + below).c_str());
    if (!folder)
        return fail(BUNDLE, "cannot read " + directory + "/" + below + ": " + strerror(errno), COPY_AGAIN);
    Error error;
    while (dirent *found = error ? nullptr : readdir(folder)) {
        std::string name = found->d_name, path = below + name;
        struct stat status;
        if (name == "." || name == "..") continue;
        auto listed = known.find(path);
        if (listed == known.end() || lstat((directory + "/" + path).c_str(), &status) ||
            (status.st_mode & S_IFMT) != listed->second)
            error = unlisted(path);
        else if (!S_ISLNK(status.st_mode) &&
                 status.st_mode & (S_ISDIR(status.st_mode) ? S_IWOTH : S_IWOTH | S_ISUID | S_ISGID))
            error = may_change(path);
        else if (S_ISDIR(status.st_mode)) error = walk(path + "/", known);
    }
    closedir(folder);
    return error;
}

Error Bundle::check_link(const Json &entry) const {
    const Json *name = entry.get("path"), *sha256 = entry.get("sha256");
    std::string target(4096, '\0');
    ssize_t size = name ? readlink((directory + "/" + name->text).c_str(), target.data(), target.size()) : -1;
    Sha256 digest;
    digest.update(reinterpret_cast<const uint8_t *>(target.data()), size_t(size < 0 ? 0 : size));
    // What it leads to is looked at where it is listed itself: elsewhere nobody does.
    const bool inside = size >= 0 && is_below(real(directory), real(directory + "/" + name->text));
    if (inside && sha256 && digest.finish() == sha256->text) return {};
    return fail(BUNDLE, (name ? name->text : "a link") + " is damaged: it is not the link that was packed",
                COPY_AGAIN);
}

Error Bundle::check_content(const Json &entry) const {
    const Json *mode = entry.get("mode"), *sha256 = entry.get("sha256");
    std::string path;
    Sha256 digest;
    if (mode && mode->text == "link") return check_link(entry);
    if (Error error = check_size(entry, path)) return error;
    int failure = read_all(path, UINT64_MAX, [&](const char *data, size_t size) {
        digest.update(reinterpret_cast<const uint8_t *>(data), size);
    });
    if (failure) return fail(BUNDLE, "cannot read " + path + ": " + strerror(failure), COPY_AGAIN);
    if (!sha256 || digest.finish() != sha256->text)
        return fail(BUNDLE, entry.get("path")->text + " is damaged: its content does not match its SHA-256",
                    COPY_AGAIN);
    return {};
}

}  // namespace embed
