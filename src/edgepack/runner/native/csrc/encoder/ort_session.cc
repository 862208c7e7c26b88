#include "encoder/ort_session.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "base/threads.h"

namespace embed {

namespace {
constexpr int LOG_FATAL = 4, ARENA_ALLOCATOR = 1, DEFAULT_MEMORY = 0, FLOAT32 = 1, INT64 = 7;
constexpr const char *DOES_NOT_LOAD = "the model does not load: ", *DOES_NOT_RUN = "the model does not run: ";
constexpr unsigned RELEASE_EVERY = 500;  // microseconds, while the model is loaded

// Bytes of files in this process's memory; 0 where the system does not say.
size_t resident_file_bytes() {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    if (file && fscanf(file, "%*u %*u %lu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * size_t(sysconf(_SC_PAGESIZE));
}
}  // namespace

OrtEncoder::~OrtEncoder() {
    if (!ort_) return;
    if (session_) ort_->ReleaseSession(session_);
    if (options_) ort_->ReleaseSessionOptions(options_);
    if (memory_) ort_->ReleaseMemoryInfo(memory_);
    if (env_ && releases_env_) ort_->ReleaseEnv(env_);
}

Error OrtEncoder::error_of(OrtStatus *status, const char *what) const {
    if (!status) return {};
    Error error = fail(RUNTIME, std::string(what) + ort_->GetErrorMessage(status), TRY_SELF_TEST);
    ort_->ReleaseStatus(status);
    return error;
}

Error OrtEncoder::open(const std::string &library, const std::string &model, int threads) {
    if (Error error = open_ort(library, ort_)) return error;
    OrtStatus *status = ort_->CreateEnv(LOG_FATAL, "embed", &env_);
    if (!status) status = ort_->CreateCpuMemoryInfo(ARENA_ALLOCATOR, DEFAULT_MEMORY, &memory_);
    if (!status) status = ort_->CreateSessionOptions(&options_);
    if (!status) status = ort_->SetSessionLogSeverityLevel(options_, LOG_FATAL);
    if (!status) status = ort_->SetIntraOpNumThreads(options_, threads);
    // A thread that waits for work must not burn a device's battery.
    if (!status) status = ort_->AddSessionConfigEntry(options_, "session.intra_op.allow_spinning", "0");
    if (status) return error_of(status, DOES_NOT_LOAD);
    if (Error error = load(model)) return error;
    if (Error error = name_inputs()) return error;
    returns_pages_ = model_.size() && reads_little();
    return {};
}

Error OrtEncoder::does_not_load(OrtStatus *status) const { return error_of(status, DOES_NOT_LOAD); }

Error OrtEncoder::load(const std::string &model) {
    if (int failure = model_.open(model.c_str()))
        return fail(RUNTIME, DOES_NOT_LOAD + ("cannot map " + model) + ": " + strerror(failure),
                    TRY_SELF_TEST);
    // A pattern for each shape of a batch is memory that only grows, and no faster.
    OrtStatus *status = ort_->DisableMemPattern(options_);
    auto set = [&](const char *key, const char *value) {
        if (!status) status = ort_->AddSessionConfigEntry(options_, key, value);
    };
    if (model.size() > 4 && model.compare(model.size() - 4, 4, ".ort") == 0) {
        set("session.load_model_format", "ORT");
        set("session.use_ort_model_bytes_directly", "1");
        set("session.use_ort_model_bytes_for_initializers", "1");
    }
    if (status) return error_of(status, DOES_NOT_LOAD);
    return create_session();
}

// Kernels keep weights in forms of their own; the pages of the file that they were made from go back to the
// system at once, so that the model is never in memory twice.
Error OrtEncoder::create_session() {
    std::atomic<bool> loaded{false};
    OrtStatus *status;
    const std::function<void()> release = [&] {
        do {
            usleep(RELEASE_EVERY);
            model_.release_pages();
        } while (!loaded);
    };
    {
        Aside releasing(release);
        status = ort_->CreateSessionFromArray(env_, model_.data(), model_.size(), options_, &session_);
        loaded = true;
    }
    return error_of(status, DOES_NOT_LOAD);
}

// Whether a run reads hardly more of the file than the rows of its tokens, which then need not stay: each
// fault brings in the pages around its own, and with them, before long, a whole table. Weights that are used
// as they lie in the file are read by every run, and stay.
bool OrtEncoder::reads_little() const {
    Batch batch{1, 1, {0}, {1}, {0}};
    OrtValue *output = nullptr;
    const char *name = output_.c_str();
    size_t before = resident_file_bytes();
    Error error = compute(batch, &name, 1, &output);
    if (output) ort_->ReleaseValue(output);
    // What goes wrong here goes wrong again when it matters.
    if (error || !before) return false;
    return resident_file_bytes() < before + model_.size() / 4;
}

Error OrtEncoder::name_inputs() {
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
            return fail(RUNTIME,
                        std::string(DOES_NOT_LOAD) + "it wants " + input + ", which a text does not give",
                        TRY_SELF_TEST);
    }
    if (!status) status = ort_->SessionGetOutputName(session_, 0, allocator, &name);
    if (!status) take(name, output_);
    return error_of(status, DOES_NOT_LOAD);
}

Error OrtEncoder::run(const Batch &batch, size_t dimension, std::vector<float> &vectors,
                      TokenVectors *tokens) const {
    OrtValue *outputs[2] = {};
    const char *names[2] = {output_.c_str(), "token_embeddings"};
    bool both = tokens && tokens->width;
    Error error = compute(batch, names, both ? 2 : 1, outputs);
    if (!error) error = read(outputs[0], {batch.rows, dimension}, vectors);
    if (!error && both) error = read(outputs[1], {batch.rows, batch.length, tokens->width}, tokens->numbers);
    for (OrtValue *output : outputs)
        if (output) ort_->ReleaseValue(output);
    if (returns_pages_) model_.release_pages();
    return error;
}

Error OrtEncoder::compute(const Batch &batch, const char *const *outputs, size_t count,
                          OrtValue **made) const {
    const int64_t shape[2] = {int64_t(batch.rows), int64_t(batch.length)};
    const char *names[3];
    OrtValue *values[3] = {};
    OrtStatus *status = nullptr;
    for (size_t index = 0; index < inputs_.size() && !status; index++) {
        const std::string &input = inputs_[index];
        const auto &column = input == "input_ids"        ? batch.ids
                             : input == "attention_mask" ? batch.mask
                                                         : batch.types;
        names[index] = input.c_str();
        // What it takes for an input it does not write to.
        status = ort_->CreateTensorWithDataAsOrtValue(memory_, const_cast<int64_t *>(column.data()),
                                                      column.size() * sizeof(int64_t), shape, 2, INT64,
                                                      &values[index]);
    }
    if (!status) status = ort_->Run(session_, nullptr, names, values, inputs_.size(), outputs, count, made);
    for (OrtValue *value : values)
        if (value) ort_->ReleaseValue(value);
    return error_of(status, DOES_NOT_RUN);
}

Error OrtEncoder::read(OrtValue *output, std::initializer_list<size_t> expected,
                       std::vector<float> &numbers) const {
    OrtTensorTypeAndShapeInfo *info = nullptr;
    int type = 0;
    size_t rank = 0, count = 1;
    int64_t shape[3] = {};
    OrtStatus *status = ort_->GetTensorTypeAndShape(output, &info);
    if (!status) status = ort_->GetTensorElementType(info, &type);
    if (!status) status = ort_->GetDimensionsCount(info, &rank);
    if (!status && rank == expected.size()) status = ort_->GetDimensions(info, shape, rank);
    if (info) ort_->ReleaseTensorTypeAndShapeInfo(info);
    void *data = nullptr;
    if (!status) status = ort_->GetTensorMutableData(output, &data);
    if (status) return error_of(status, DOES_NOT_RUN);
    bool right = type == FLOAT32 && rank == expected.size();
    for (size_t axis = 0; axis < expected.size(); axis++) {
        right = right && size_t(shape[axis]) == expected.begin()[axis];
        count *= expected.begin()[axis];
    }
    if (!right)
        return fail(RUNTIME,
                    "the model has " + std::to_string(shape[expected.size() - 1]) +
                        " dimensions, the manifest says " + std::to_string(expected.end()[-1]),
                    TRY_SELF_TEST);
    auto made = static_cast<const float *>(data);
    numbers.insert(numbers.end(), made, made + count);
    return {};
}

const EncoderFacts ENCODER = {nullptr, "ONNX Runtime ", true};

Error open_encoder(const std::string &library, const std::string &model, int threads,
                   std::unique_ptr<Encoder> &encoder) {
    auto made = std::make_unique<OrtEncoder>();
    Error error = made->open(library, model, threads);
    encoder = std::move(made);
    return error;
}

}  // namespace embed
