// The functions of ONNX Runtime's C API that the program calls: linked in, or found in a shared library.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

struct OrtStatus;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtMemoryInfo;
struct OrtValue;
struct OrtAllocator;
struct OrtTensorTypeAndShapeInfo;

namespace embed {

struct Ort {
    const char *(*GetErrorMessage)(const OrtStatus *);
    void (*ReleaseStatus)(OrtStatus *);
    OrtStatus *(*CreateEnv)(int level, const char *name, OrtEnv **);
    void (*ReleaseEnv)(OrtEnv *);
    OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **);
    void (*ReleaseSessionOptions)(OrtSessionOptions *);
    OrtStatus *(*SetSessionLogSeverityLevel)(OrtSessionOptions *, int);
    OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *, int);
    OrtStatus *(*DisableMemPattern)(OrtSessionOptions *);
    OrtStatus *(*AddSessionConfigEntry)(OrtSessionOptions *, const char *, const char *);
    OrtStatus *(*CreateSessionFromArray)(const OrtEnv *, const void *, size_t, const OrtSessionOptions *,
                                         OrtSession **);
    void (*ReleaseSession)(OrtSession *);
    OrtStatus *(*SessionGetInputCount)(const OrtSession *, size_t *);
    OrtStatus *(*SessionGetInputName)(const OrtSession *, size_t, OrtAllocator *, char **);
    OrtStatus *(*SessionGetOutputName)(const OrtSession *, size_t, OrtAllocator *, char **);
    OrtStatus *(*GetAllocatorWithDefaultOptions)(OrtAllocator **);
    OrtStatus *(*AllocatorFree)(OrtAllocator *, void *);
    OrtStatus *(*CreateCpuMemoryInfo)(int allocator, int memory, OrtMemoryInfo **);
    void (*ReleaseMemoryInfo)(OrtMemoryInfo *);
    OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *, void *, size_t, const int64_t *,
                                                 size_t, int, OrtValue **);
    void (*ReleaseValue)(OrtValue *);
    OrtStatus *(*Run)(OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *,
                      size_t, const char *const *, size_t, OrtValue **);
    OrtStatus *(*GetTensorMutableData)(OrtValue *, void **);
    OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *, OrtTensorTypeAndShapeInfo **);
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *);
    OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *, int *);
    OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *, size_t *);
    OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t);
};

// `library` is the file to load them from; where they are linked in, it does not matter.
Error open_ort(const std::string &library, const Ort *&ort);
// All functions of a library's C API by their places in that version of it; for a runtime in a library of its
// own.
Error open_ort_table(const std::string &library, uint32_t version, void *const *&table);

}  // namespace embed
