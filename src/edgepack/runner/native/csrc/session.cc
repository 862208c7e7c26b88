#include "session.h"

#include <cstring>

namespace embed {

namespace {
constexpr int LOG_FATAL = 4, ARENA_ALLOCATOR = 1, DEFAULT_MEMORY = 0, FLOAT32 = 1, INT64 = 7;
constexpr const char *DOES_NOT_LOAD = "the model does not load: ", *DOES_NOT_RUN = "the model does not run: ";
}  // namespace

Session::~Session() {
    if (!ort_) return;
    if (session_) ort_->ReleaseSession(session_);
    if (options_) ort_->ReleaseSessionOptions(options_);
    if (memory_) ort_->ReleaseMemoryInfo(memory_);
    if (env_) ort_->ReleaseEnv(env_);
}

Error Session::said(OrtStatus *status, const char *what) const {
    if (!status) return {};
    Error error = fail(RUNTIME, std::string(what) + ort_->GetErrorMessage(status), TRY_SELF_TEST);
    ort_->ReleaseStatus(status);
    return error;
}

Error Session::open(const std::string &library, const std::string &model, int threads) {
    if (Error error = open_ort(library, ort_)) return error;
    if (int failure = model_.open(model.c_str()))
        return fail(RUNTIME, DOES_NOT_LOAD + ("cannot map " + model) + ": " + strerror(failure), TRY_SELF_TEST);
    OrtStatus *status = ort_->CreateEnv(LOG_FATAL, "embed", &env_);
    if (!status) status = ort_->CreateCpuMemoryInfo(ARENA_ALLOCATOR, DEFAULT_MEMORY, &memory_);
    if (!status) status = ort_->CreateSessionOptions(&options_);
    if (!status) status = ort_->SetSessionLogSeverityLevel(options_, LOG_FATAL);
    if (!status) status = ort_->SetIntraOpNumThreads(options_, threads);
    auto set = [&](const char *key, const char *value) {
        if (!status) status = ort_->AddSessionConfigEntry(options_, key, value);
    };
    // A thread that waits for work must not burn a device's battery.
    set("session.intra_op.allow_spinning", "0");
    if (model.size() > 4 && model.compare(model.size() - 4, 4, ".ort") == 0) {
        set("session.load_model_format", "ORT");
        set("session.use_ort_model_bytes_directly", "1");
        set("session.use_ort_model_bytes_for_initializers", "1");
    }
    if (!status) status = ort_->CreateSessionFromArray(env_, model_.data(), model_.size(), options_, &session_);
    if (status) return said(status, DOES_NOT_LOAD);
    // Kernels that keep weights in a form of their own have read all of theirs; of a table, only some rows are needed.
    model_.release_pages();
    return name_inputs();
}

Error Session::name_inputs() {
    OrtAllocator *allocator = nullptr;
    size_t count = 0;
    OrtStatus *status = ort_->GetAllocatorWithDefaultOptions(&allocator);
    if (!status) status = ort_->SessionGetInputCount(session_, &count);
    auto take = [&](char *name, std::string &place) {
        place = name;
        status = ort_->AllocatorFree(allocator, name);
    };
    char *name = nullptr;
    for (size_t index = 0; index < count && !status; index++) {
        if ((status = ort_->SessionGetInputName(session_, index, allocator, &name))) break;
        take(name, inputs_.emplace_back());
        const std::string &input = inputs_.back();
        // The C API does not miss an input that is not fed: it reads what is not there.
        if (input != "input_ids" && input != "attention_mask" && input != "token_type_ids")
            return fail(RUNTIME, std::string(DOES_NOT_LOAD) + "it wants " + input + ", which a text does not give", TRY_SELF_TEST);
    }
    if (!status) status = ort_->SessionGetOutputName(session_, 0, allocator, &name);
    if (!status) take(name, output_);
    return said(status, DOES_NOT_LOAD);
}

Error Session::run(Batch &batch, size_t dimension, std::vector<float> &vectors) const {
    const int64_t shape[2] = {int64_t(batch.rows), int64_t(batch.length)};
    const char *names[3], *output_name = output_.c_str();
    OrtValue *values[3] = {}, *output = nullptr;
    OrtStatus *status = nullptr;
    for (size_t index = 0; index < inputs_.size() && !status; index++) {
        const std::string &input = inputs_[index];
        auto &column = input == "input_ids" ? batch.ids : input == "attention_mask" ? batch.mask : batch.types;
        names[index] = input.c_str();
        status = ort_->CreateTensorWithDataAsOrtValue(memory_, column.data(), column.size() * sizeof(int64_t), shape, 2,
                                                      INT64, &values[index]);
    }
    if (!status) status = ort_->Run(session_, nullptr, names, values, inputs_.size(), &output_name, 1, &output);
    Error error = said(status, DOES_NOT_RUN);
    if (!error) error = read(output, batch, dimension, vectors);
    for (OrtValue *value : values)
        if (value) ort_->ReleaseValue(value);
    if (output) ort_->ReleaseValue(output);
    return error;
}

Error Session::read(OrtValue *output, const Batch &batch, size_t dimension, std::vector<float> &vectors) const {
    OrtTensorTypeAndShapeInfo *info = nullptr;
    int type = 0;
    size_t rank = 0;
    int64_t shape[2] = {};
    OrtStatus *status = ort_->GetTensorTypeAndShape(output, &info);
    if (!status) status = ort_->GetTensorElementType(info, &type);
    if (!status) status = ort_->GetDimensionsCount(info, &rank);
    if (!status && rank == 2) status = ort_->GetDimensions(info, shape, 2);
    if (info) ort_->ReleaseTensorTypeAndShapeInfo(info);
    void *data = nullptr;
    if (!status) status = ort_->GetTensorMutableData(output, &data);
    if (status) return said(status, DOES_NOT_RUN);
    if (type != FLOAT32 || rank != 2 || size_t(shape[0]) != batch.rows || size_t(shape[1]) != dimension)
        return fail(RUNTIME, "the model has " + std::to_string(shape[1]) + " dimensions, the manifest says " +
                                 std::to_string(dimension), TRY_SELF_TEST);
    auto numbers = static_cast<const float *>(data);
    vectors.insert(vectors.end(), numbers, numbers + batch.rows * dimension);
    return {};
}

}  // namespace embed
