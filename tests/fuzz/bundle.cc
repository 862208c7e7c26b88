// A manifest of a stranger: the bundle is refused, or what the program says of it can be said.
#include <cstdlib>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

#include "program/about.h"
#include "embedder/bundle.h"

int fuzz_bundle(const uint8_t *data, size_t size) {
    static const std::string folder = [] {
        std::string made = "/tmp/edgepack-fuzz-" + std::to_string(getpid());
        mkdir(made.c_str(), 0700);
        return made;
    }();
    std::string path = folder + "/manifest.json";
    int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, data, size) != ssize_t(size)) abort();
    close(file);
    embed::Bundle bundle;
    embed::Error error = bundle.open(folder);
    if (error && error.code != embed::BUNDLE) abort();
    embed::Options options;
    options.info = true;
    std::string text;
    // Of a manifest whose files are missing, too.
    (void)embed::about(options, bundle, text);
    options.json = true;
    (void)embed::about(options, bundle, text);
    unlink(path.c_str());
    rmdir(folder.c_str());
    mkdir(folder.c_str(), 0700);
    return 0;
}
