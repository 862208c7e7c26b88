// `embed search --polite`: makes vectors when nothing else wants the processor, and not while the machine is on battery.
#include <algorithm>
#include <ctime>
#include <dirent.h>
#include <mutex>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stream.h"
#include "base/text.h"
#include "features/feature.h"
#include "program/options.h"
#include "program/reading.h"

namespace embed {

namespace {

// As Linux has them; not all C libraries do.
constexpr int LEAST = 19, IDLE = 5, THIS_THREAD = 1, IDLE_READING = 3 << 13;

// Folder of the supplies of power; empty: nobody asked.
std::string supplies;

std::string word(const std::string &path) {
    File file;
    char content[64];  // less than the system says that the file has
    const ssize_t size = file.open(path) ? 0 : read_some(file.descriptor(), content, sizeof content);
    return std::string(stripped({content, size_t(std::max<ssize_t>(size, 0))}));
}

// Whether a battery gives power and nothing else does; not where the system does not tell. That of a mouse is none.
bool on_battery() {
    DIR *folder = opendir(supplies.c_str());
    bool battery = false, mains = false;
    while (dirent *each = folder ? readdir(folder) : nullptr) {
        const std::string place = supplies + "/" + each->d_name + "/", online = word(place + "online");
        if (word(place + "type") != "Battery") mains = mains || (!online.empty() && online != "0");
        else if (word(place + "scope") != "Device") battery = battery || word(place + "status") == "Discharging";
    }
    if (folder) closedir(folder);
    return battery && !mains;
}

// Asks once a second.
void wait_for_mains() {
    static std::mutex mutex;
    static time_t asked = 0;
    static bool told = false;
    std::lock_guard<std::mutex> held(mutex);
    if (time(nullptr) == asked) return;
    for (; on_battery(); sleep(1)) {
        if (!told) say("note: on battery: it goes on when the machine is back on mains\n");
        told = true;
    }
    asked = time(nullptr);
}

class Polite : public Encoder {
public:
    explicit Polite(std::unique_ptr<Encoder> encoder) : encoder_(std::move(encoder)) {}
    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors,
              TokenVectors *tokens) const override {
        wait_for_mains();
        return encoder_->run(batch, dimension, vectors, tokens);
    }

private:
    std::unique_ptr<Encoder> encoder_;
};

// Threads that begin later are as this one. Where it may not be so, it is as ever.
Error be_polite(const Options &options, const Bundle &, bool &) {
    if (!options.polite) return {};
    supplies = options.supplies;
    const int priority = 0;
    setpriority(PRIO_PROCESS, 0, LEAST);
    syscall(SYS_sched_setscheduler, 0, IDLE, &priority);
    syscall(SYS_ioprio_set, THIS_THREAD, 0, IDLE_READING);
    return {};
}

Error open_polite(const Bundle &bundle, const EmbedOptions &, int threads, Batching &,
           std::unique_ptr<Encoder> &encoder) {
    if (supplies.empty()) return {};
    std::unique_ptr<Encoder> own;
    Error error = open_encoder(bundle.library, bundle.model, threads, own);
    if (!error) encoder = std::make_unique<Polite>(std::move(own));
    return error;
}

}  // namespace

extern const Feature POLITE_FEATURE = [] {
    Feature feature;
    feature.name = "polite";
    feature.commands = SEARCH;
    feature.run = be_polite;
    feature.open_encoder = open_polite;
    return feature;
}();

}  // namespace embed
