// The C API of a shared library. The table of functions only ever grows (upstream guards the order with
// static_asserts), so that version 5 of it serves every library since 1.5:
// https://onnxruntime.ai/docs/api/c/struct_ort_api.html
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#include "encoder/ort.h"

namespace embed {

namespace {

struct ApiBase {
    const void *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)();
};

Error open_base(const std::string &library, const ApiBase *&base) {
    void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto find = handle ? reinterpret_cast<const ApiBase *(*)()>(dlsym(handle, "OrtGetApiBase")) : nullptr;
    if (!find)
        return fail(RUNTIME, std::string("the model does not load: cannot load the library: ") + dlerror(),
                    TRY_SELF_TEST);
    base = find();
    return {};
}

}  // namespace

Error open_ort_table(const std::string &library, uint32_t version, void *const *&table) {
    const ApiBase *base = nullptr;
    if (Error error = open_base(library, base)) return error;
    // A release tells its version's second number; one that is too old for a version says so on standard
    // error by itself.
    const char *found = base->GetVersionString(), *minor = strchr(found, '.');
    const bool old = minor && minor[1] >= '0' && minor[1] <= '9' && strtoul(minor + 1, nullptr, 10) < version;
    table = old ? nullptr : static_cast<void *const *>(base->GetApi(version));
    if (table) return {};
    return fail(RUNTIME,
                std::string("the model does not load: ONNX Runtime ") + found + " does not offer version " +
                    std::to_string(version) + " of its C API",
                TRY_SELF_TEST);
}

Error open_ort(const std::string &library, const Ort *&ort) {
    static Ort loaded;
    static std::string version;
    const ApiBase *base = nullptr;
    if (Error error = open_base(library, base)) return error;
    const std::string found = base->GetVersionString();
    // Sessions keep a pointer to the table: what one release made, another must not be called with.
    if (!version.empty() && found != version)
        return fail(
            RUNTIME,
            "this process runs ONNX Runtime " + version + " of another bundle, this bundle's is " + found,
            "open bundles of different releases in processes of their own, or each with its own libembed");
    if (!version.empty()) {
        ort = &loaded;
        return {};
    }
    void *const *table = nullptr;
    if (Error error = open_ort_table(library, 5, table)) return error;
#define TAKE(name, slot) loaded.name = reinterpret_cast<decltype(loaded.name)>(table[slot])
    TAKE(GetErrorMessage, 2);
    TAKE(CreateEnv, 3);
    TAKE(CreateSessionFromArray, 8);
    TAKE(Run, 9);
    TAKE(CreateSessionOptions, 10);
    TAKE(DisableMemPattern, 17);
    TAKE(SetSessionLogSeverityLevel, 22);
    TAKE(SetIntraOpNumThreads, 24);
    TAKE(SessionGetInputCount, 30);
    TAKE(SessionGetInputName, 36);
    TAKE(SessionGetOutputName, 37);
    TAKE(CreateTensorWithDataAsOrtValue, 49);
    TAKE(GetTensorMutableData, 51);
    TAKE(GetTensorElementType, 60);
    TAKE(GetDimensionsCount, 61);
    TAKE(GetDimensions, 62);
    TAKE(GetTensorTypeAndShape, 65);
    TAKE(CreateCpuMemoryInfo, 69);
    TAKE(AllocatorFree, 76);
    TAKE(GetAllocatorWithDefaultOptions, 78);
    TAKE(ReleaseEnv, 92);
    TAKE(ReleaseStatus, 93);
    TAKE(ReleaseMemoryInfo, 94);
    TAKE(ReleaseSession, 95);
    TAKE(ReleaseValue, 96);
    TAKE(ReleaseTensorTypeAndShapeInfo, 99);
    TAKE(ReleaseSessionOptions, 100);
    TAKE(AddSessionConfigEntry, 130);
#undef TAKE
    version = found;
    ort = &loaded;
    return {};
}

}  // namespace embed
