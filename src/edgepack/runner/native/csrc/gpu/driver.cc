// The driver is asked itself (libcuda, https://docs.nvidia.com/cuda/cuda-driver-api/): what ONNX Runtime says
// of a GPU that it cannot use is a number in a stack of C++ frames.
#include "gpu/driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

namespace embed {

namespace {

constexpr const char *DRIVER = "libcuda.so.1";
constexpr int NO_DEVICE = 100, STUB = 34, NOT_READY = 802, MISMATCH = 803, TOO_NEW_FOR_DEVICE = 804;
constexpr int CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
constexpr int FIRST_MAJOR = 10, LAST_MAJOR = 15;  // of CUDA, where another version's library is looked for

// CUDA's major version and the oldest branch of NVIDIA's Linux driver for it (CUDA's release notes, table 3).
constexpr int BRANCHES[][2] = {{13, 580}, {12, 525}, {11, 450}};

Error refuse_gpu(const std::string &message, const std::string &hint) {
    return fail(DEVICE, message, hint + "; " + ALLOW_CPU);
}

Error no_gpu(const std::string &message = "there is no NVIDIA GPU here") {
    return refuse_gpu(message,
                      "CUDA_VISIBLE_DEVICES and the container's settings decide which GPUs are visible");
}

class Driver {
public:
    Error open() {
        if ((handle_ = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL))) return {};
        return refuse_gpu(std::string("there is no NVIDIA driver here (") + DRIVER + " does not load)",
                          "install NVIDIA's driver, or start the container with its GPUs (--gpus all)");
    }
    int start() const {
        auto function = find<int (*)(unsigned)>("cuInit");
        return function ? function(0) : STUB;
    }
    // What a function writes into its first argument; 0 where it fails.
    template <class... Arguments> int number(const char *name, Arguments... arguments) const {
        auto function = find<int (*)(int *, Arguments...)>(name);
        int value = 0;
        return function && function(&value, arguments...) == 0 ? value : 0;
    }
    std::string name_of(int device) const {
        char name[256] = "";
        if (auto function = find<int (*)(char *, int, int)>("cuDeviceGetName"))
            function(name, int(sizeof name) - 1, device);
        return *name ? name : "the GPU";
    }

private:
    template <class Function> Function find(const char *name) const {
        return reinterpret_cast<Function>(dlsym(handle_, name));
    }
    void *handle_ = nullptr;
};

// The driver must know the CUDA version that the libraries are of.
Error require_version(const Driver &driver, const std::string &cuda) {
    int major = 0, minor = 0;
    if (sscanf(cuda.c_str(), "%d.%d", &major, &minor) < 1) return {};
    const int known = driver.number("cuDriverGetVersion"), known_major = known / 1000,
              known_minor = known % 1000 / 10;
    if (known_major > major || (known_major == major && known_minor >= minor)) return {};
    std::string branch = "of a newer branch";
    for (auto [of, number] : BRANCHES)
        if (of == major) branch = std::to_string(number) + " or newer";
    return refuse_gpu("the NVIDIA driver here supports CUDA up to " + std::to_string(known_major) + "." +
                          std::to_string(known_minor) + ", the bundle requires " + cuda,
                      "install driver " + branch);
}

Error start_driver(const Driver &driver) {
    const int code = driver.start();
    const std::string number = "(CUDA error " + std::to_string(code) + ")";
    if (code == 0) return {};
    if (code == NO_DEVICE) return no_gpu();
    if (code == MISMATCH || code == TOO_NEW_FOR_DEVICE)
        return refuse_gpu("the NVIDIA driver's library and its kernel module do not match " + number,
                          std::string("restart after the driver's update, or mount the host's ") + DRIVER +
                              " into the container");
    const char *what = code == STUB        ? ": its library is a stub"
                       : code == NOT_READY ? ": it is not ready yet"
                                           : "";
    return refuse_gpu("the NVIDIA driver failed to start " + number + what,
                      "nvidia-smi says more about the driver");
}

// What the loader says against a library; empty when it is loaded.
std::string complaint(const std::string &path) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return "";
    const char *said = dlerror();
    return said ? said : "it does not load";
}

bool loads(const std::string &path) { return complaint(path).empty(); }

// Folders of CUDA toolkits: those that are named, and as NVIDIA's installers name them, the newest first.
std::vector<std::string> toolkits() {
    std::vector<std::string> found, named;
    if (DIR *folder = opendir("/usr/local")) {
        while (dirent *entry = readdir(folder))
            if (std::string name = entry->d_name; name.rfind("cuda", 0) == 0)
                found.push_back("/usr/local/" + name);
        closedir(folder);
    }
    std::sort(found.rbegin(), found.rend());
    for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
        if (const char *place = getenv(variable); place && *place) named.push_back(place);
    named.insert(named.end(), found.begin(), found.end());
    return named;
}

// In the bundle's own folder, where the loader finds it, or where CUDA's installers put it.
bool load_somewhere(const std::string &name, const std::string &directory) {
    if (loads(directory + "/" + name) || loads(name)) return true;
    for (const std::string &root : toolkits())
        if (loads(root + "/lib64/" + name) || loads(root + "/targets/x86_64-linux/lib/" + name)) return true;
    return false;
}

// Which version is wanted, and which is there.
Error missing_library(const std::string &name) {
    const size_t dot = name.find(".so.");
    const std::string base = name.substr(0, dot), wanted = dot == name.npos ? "" : name.substr(dot + 4);
    std::string beside;
    for (int major = LAST_MAJOR; major >= FIRST_MAJOR && beside.empty(); major--) {
        const std::string other = base + ".so." + std::to_string(major);
        if (std::to_string(major) != wanted && loads(other)) beside = " (there is " + other + ")";
    }
    const std::string what =
        base == "libcudnn" ? "cuDNN " + wanted : "CUDA " + wanted + " (its cuBLAS and cudart)";
    return refuse_gpu(name + " is not on this device" + beside,
                      "install " + what +
                          ", or name its folder in LD_LIBRARY_PATH or CUDA_HOME, "
                          "or use a bundle made with --set layout=full");
}

}  // namespace

Error require_device(const WantedDevice &wanted, std::string &device) {
    Driver driver;
    if (Error error = driver.open()) return error;
    if (Error error = require_version(driver, wanted.cuda)) return error;
    if (Error error = start_driver(driver)) return error;
    const int count = driver.number("cuDeviceGetCount");
    if (!count) return no_gpu();
    if (wanted.index >= count)
        return no_gpu("there is no GPU number " + std::to_string(wanted.index) + " here, but " +
                      std::to_string(count));
    const int number = driver.number("cuDeviceGet", wanted.index);
    const int major = driver.number("cuDeviceGetAttribute", CAPABILITY_MAJOR, number);
    const int minor = driver.number("cuDeviceGetAttribute", CAPABILITY_MINOR, number);
    const std::string name = driver.name_of(number),
                      capability = std::to_string(major) + "." + std::to_string(minor);
    device = name + ", compute capability " + capability;
    std::string listed;
    for (const std::string &code : wanted.capabilities) {
        if (runs_on(code, major, minor)) return {};
        listed += (listed.empty() ? "" : ", ") + code;
    }
    if (listed.empty()) return {};
    return refuse_gpu(
        name + " has compute capability " + capability + "; the bundle has code for " + listed + " only",
        wanted.remedy.empty() ? "make the bundle for this GPU" : wanted.remedy);
}

bool runs_on(const std::string &code, int major, int minor) {
    int wanted_major = 0, wanted_minor = 0;
    if (sscanf(code.c_str(), "%d.%d", &wanted_major, &wanted_minor) != 2 || wanted_major != major)
        return false;
    return code.back() == 'a' ? wanted_minor == minor : wanted_minor <= minor;
}

Error load_libraries(const std::vector<std::string> &names, const std::string &directory) {
    for (const std::string &name : names) {
        if (load_somewhere(name, directory)) continue;
        const std::string own = directory + "/" + name;
        if (access(own.c_str(), F_OK)) return missing_library(name);
        return refuse_gpu(name + " of this bundle does not load: " + complaint(own),
                          "embed --self-test says whether a file is damaged");
    }
    return {};
}

}  // namespace embed
