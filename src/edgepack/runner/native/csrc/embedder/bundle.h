// The bundle that the program belongs to, as its manifest says it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace embed {

struct Bundle {
    // The folder, or the file that is both program and bundle (base/file.h).
    std::string directory;
    std::string manifest_digest;
    Json manifest;
    std::string model, tokenizer, library;  // absolute paths; no library where a session needs none
    size_t dimension = 0, max_length = 0;
    bool batch_dependent = false;

    // A code of 4 for what is missing, of another size, or of a newer schema.
    Error open(const std::string &directory);
    // Reads every listed file and compares its SHA-256.
    Error check_contents(size_t &files) const;
    // Nothing lies in the folder, or behind the program, but what is listed, the manifest, and a file of that
    // name; nobody else may write it.
    Error check_strangers(const char *beside) const;
    // As check_contents, for the model and the tokenizer alone.
    Error check_data() const;
    // A text of the manifest; empty where there is none.
    std::string text(std::string_view section, std::string_view name) const;
    // What goes before a `query` or a `passage`: null where the model knows no such thing.
    const Json *prompt(std::string_view kind) const { return manifest.at("model", "prefixes", kind); }

    // The absolute path of a file that the manifest names, found to be there and of the right size.
    Error file(const char *section, const char *name, std::string &path) const;
    // The same of a file's name that `key` says.
    Error listed(const std::string &name, const std::string &key, std::string &path) const;

private:
    Error read_manifest();
    Error check_size(const Json &entry, std::string &path) const;
    Error check_content(const Json &entry) const;
    Error check_link(const Json &entry) const;
    Error walk(const std::string &below, const std::map<std::string, mode_t> &known) const;
};

// The whole of a file that has no more than `most` bytes; a code of 4.
Error read_file(const std::string &path, std::string &content, size_t most = 1 << 28);

}  // namespace embed
