// The functions of ONNX Runtime themselves, linked in. Its table of the whole C API is not named, so that
// what only that table leads to is left out of the program.
#include "core/session/onnxruntime_c_api.h"
#include "core/session/ort_apis.h"

#include "encoder/ort.h"

namespace embed {

Error open_ort(const std::string &, const Ort *&ort) {
    static const Ort linked = {
        OrtApis::GetErrorMessage,
        OrtApis::ReleaseStatus,
        [](int level, const char *name, OrtEnv **env) {
            return OrtApis::CreateEnv(OrtLoggingLevel(level), name, env);
        },
        OrtApis::ReleaseEnv,
        OrtApis::CreateSessionOptions,
        OrtApis::ReleaseSessionOptions,
        OrtApis::SetSessionLogSeverityLevel,
        OrtApis::SetIntraOpNumThreads,
        OrtApis::DisableMemPattern,
        OrtApis::AddSessionConfigEntry,
        OrtApis::CreateSessionFromArray,
        OrtApis::ReleaseSession,
        OrtApis::SessionGetInputCount,
        OrtApis::SessionGetInputName,
        OrtApis::SessionGetOutputName,
        OrtApis::GetAllocatorWithDefaultOptions,
        OrtApis::AllocatorFree,
        [](int allocator, int memory, OrtMemoryInfo **info) {
            return OrtApis::CreateCpuMemoryInfo(OrtAllocatorType(allocator), OrtMemType(memory), info);
        },
        OrtApis::ReleaseMemoryInfo,
        [](const OrtMemoryInfo *info, void *data, size_t size, const int64_t *shape, size_t rank, int type,
           OrtValue **value) {
            return OrtApis::CreateTensorWithDataAsOrtValue(info, data, size, shape, rank,
                                                           ONNXTensorElementDataType(type), value);
        },
        OrtApis::ReleaseValue,
        OrtApis::Run,
        OrtApis::GetTensorMutableData,
        OrtApis::GetTensorTypeAndShape,
        OrtApis::ReleaseTensorTypeAndShapeInfo,
        [](const OrtTensorTypeAndShapeInfo *info, int *type) {
            ONNXTensorElementDataType found;
            OrtStatus *status = OrtApis::GetTensorElementType(info, &found);
            if (!status) *type = int(found);
            return status;
        },
        OrtApis::GetDimensionsCount,
        OrtApis::GetDimensions,
    };
    ort = &linked;
    return {};
}

}  // namespace embed
