#include "embedder/processor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace embed {

namespace {

// The flags of the first processor that /proc/cpuinfo describes, a space before and after each; empty where
// it cannot be read.
std::string processor_flags() {
    FILE *file = std::fopen("/proc/cpuinfo", "re");
    char *line = nullptr;
    size_t room = 0;
    std::string found;
    while (file && found.empty() && getline(&line, &room, file) > 0) {
        const char *colon = std::strchr(line, ':');
        if (colon && (!std::strncmp(line, "flags", 5) || !std::strncmp(line, "Features", 8)))
            found = colon + 1;
    }
    std::replace(found.begin(), found.end(), '\n', ' ');
    free(line);
    if (file) std::fclose(file);
    return found;
}

}  // namespace

Error require_processor(const Bundle &bundle) {
    const Json *wanted = bundle.manifest.at("runtime", "requires");
    if (!wanted || wanted->items.empty()) return {};
    std::string has = processor_flags(), lacking;
    std::vector<std::string> names;
    for (const Json &flag : wanted->items)
        if (!has.empty() && has.find(" " + flag.text + " ") == std::string::npos) names.push_back(flag.text);
    if (names.empty()) return {};
    std::sort(names.begin(), names.end());
    for (const std::string &name : names) lacking += (lacking.empty() ? "" : ", ") + name;
    return fail(RUNTIME, "this device's processor lacks " + lacking + ", which the bundle's runtime requires",
                "build a bundle without platform.isa, or with the features of this CPU");
}

}  // namespace embed
