// Whether this device's GPU, its driver and its libraries are what the bundle was made for: asked before they
// are used.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace embed {

inline constexpr const char *ALLOW_CPU = "--allow-cpu computes on the processor instead";

struct WantedDevice {
    // The version of CUDA that the driver has to know, e.g. "13.0"; empty: any.
    std::string cuda;
    // Compute capabilities that there is code for; empty: any. `remedy` is what to do where there is none for
    // this GPU.
    std::vector<std::string> capabilities;
    std::string remedy;
    int index = 0;
};

// `device` becomes the GPU's name and compute capability. A code of 9 for one that will not do.
Error require_device(const WantedDevice &wanted, std::string &device);
// Loads libraries that the bundle expects on the device, or beside its own in `directory`: what is loaded is
// not looked for again when the provider asks for it. A code of 9.
Error load_libraries(const std::vector<std::string> &names, const std::string &directory);
// Whether code for a compute capability runs on a device: "8.6" on 8.9 too, "9.0a" on 9.0 alone.
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
bool runs_on(const std::string &code, int major, int minor);

}  // namespace embed
