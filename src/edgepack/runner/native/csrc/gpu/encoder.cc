// ONNX Runtime with the execution provider that the bundle was made for, or, where that is allowed aloud, on
// the processor.
#include <atomic>
#include <shared_mutex>

#include "embedder/embedder.h"
#include "encoder/ort_session.h"
#include "features/feature.h"
#include "gpu/provider.h"
#include "gpu/warmup.h"
#include "program/about.h"
#include "program/reading.h"

namespace embed {

namespace {

constexpr const char *CPU = "CPUExecutionProvider";
constexpr const char *NO_DEVICE_HINT =
    "ONNX Runtime looks for GPUs in /sys/class/drm and /sys/bus/pci/devices, which a container must see";

// The message of an error, without what OrtEncoder puts before what ONNX Runtime said.
std::string said_of(const Error &error) {
    for (const char *before : {"the model does not load: ", "the model does not run: "})
        if (error.message.rfind(before, 0) == 0) return error.message.substr(std::string(before).size());
    return error.message;
}

class GpuEncoder final : public OrtEncoder {
public:
    // On the processor where `provider` is null; `instead` says why.
    GpuEncoder(const Provider *provider, std::string instead) : provider_(provider) {
        placed_.instead = std::move(instead);
        placed_.provider = CPU;
    }
    ~GpuEncoder() override {
        GpuEncoder *self = this;
        keeping.compare_exchange_strong(self, nullptr);
    }
    const Placement *placement() const override { return &placed_; }
    // What a provider keeps it writes when its session ends, which the end of the process does not do.
    static void end_session() {
        GpuEncoder *last = keeping.exchange(nullptr);
        if (!last) return;
        std::unique_lock<std::shared_mutex> ending(last->ending_);
        last->ort_->ReleaseSession(last->session_);
        last->session_ = nullptr;
    }

    Error open_on_device(const Bundle &bundle, int threads) {
        std::string device;
        if (Error error = require_device(provider_->device, device)) return error;
        if (Error error = load_libraries(provider_->libraries, provider_->directory)) return error;
        if (Error error = open_ort_table(bundle.library, ProviderApi::VERSION, api_.table))
            return explain(said_of(error));
        // Unloading a GPU's libraries is left to the process's end, which takes them with it.
        releases_env_ = false;
        if (Error error = open(bundle.library, bundle.model, threads))
            return error.code == RUNTIME ? explain(said_of(error)) : error;
        if (Error error = does_not_load(api_.assignment(session_, placed_.nodes)))
            return explain(said_of(error));
        if (!placed_.nodes[provider_->name])
            return fail(DEVICE, "ONNX Runtime gave " + provider_->name + " not one node of the model",
                        "please report it with --info");
        placed_.provider = provider_->name;
        placed_.device = device;
        placed_.batch_size = provider_->batch_size;
        placed_.largest_batch = provider_->largest_batch;
        if (!placed_.cache.empty()) keeping = this;
        return {};
    }

    Error open_on_cpu(const Bundle &bundle, int threads) {
        library_ = bundle.library;
        std::string model = bundle.model;
        if (bundle.manifest.at("model", "cpu_file"))
            if (Error error = bundle.file("model", "cpu_file", model)) return error;
        return open(library_, model, threads);
    }

    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors,
              TokenVectors *tokens) const override {
        std::shared_lock<std::shared_mutex> running(ending_);
        if (!session_) return fail(RUNTIME, "the program ends");
        Error error = OrtEncoder::run(batch, dimension, vectors, tokens);
        return error && provider_ ? explain(said_of(error)) : error;
    }

protected:
    Error load(const std::string &model) override {
        if (!provider_ && model.size() > 4 && model.compare(model.size() - 4, 4, ".ort") == 0)
            return OrtEncoder::load(model);
        Settings settled;
        bool missing = false;
        if (provider_) {
            if (Error error = provider_->settle(settled, placed_.cache)) return error;
            if (Error error = does_not_load(api_.append(*provider_, settled, env_, options_, missing)))
                return error;
            if (missing)
                return fail(DEVICE, provider_->name + " finds no device here that it can use",
                            std::string(NO_DEVICE_HINT) + "; " + ALLOW_CPU);
        } else {
            if (Error error = open_ort_table(library_, 5, api_.table)) return error;
            // For convolutions; in ONNX Runtime 1.31.1 it crashes on DeBERTa in float16.
            constexpr const char *OFF = "optimization.disable_specified_optimizers";
            if (Error error = does_not_load(ort_->AddSessionConfigEntry(options_, OFF, "NchwcTransformer")))
                return error;
        }
        // By its path: weights and engines lie beside it.
        return does_not_load(api_.create_session(env_, model.c_str(), options_, &session_));
    }

private:
    static inline std::atomic<GpuEncoder *> keeping{nullptr};
    mutable std::shared_mutex ending_;
    const Provider *provider_;
    std::string library_;
    ProviderApi api_;
    Placement placed_;
};

// Which GPUs a bundle is for.
std::string provider_of(const Bundle &bundle) {
    const Json *provider = bundle.manifest.at("runtime", "provider");
    const Json *name = provider ? provider->get("name") : nullptr,
               *code = provider ? provider->get("capabilities") : nullptr;
    const Json *cuda = provider ? provider->get("cuda") : nullptr;
    if (!name) return "";
    std::string listed;
    if (code)
        for (const Json &each : code->items) listed += (listed.empty() ? "" : ", ") + each.text;
    return name->text + " for compute capability " + (listed.empty() ? "any" : listed) +
           (cuda && !cuda->text.empty() ? ", CUDA " + cuda->text : "") +
           "; --self-test says what really runs";
}

void add_placed(const Placement &placed, Json &said) {
    said.members.emplace_back("provider", json_text(placed.provider));
    if (!placed.device.empty()) {
        Json nodes;
        nodes.kind = Json::OBJECT;
        for (auto &[name, count] : placed.nodes)
            nodes.members.emplace_back(name, json_number(double(count), "%.0f"));
        said.members.emplace_back("device", json_text(placed.device));
        said.members.emplace_back("nodes", nodes);
    }
    if (!placed.instead.empty()) said.members.emplace_back("instead", json_text(placed.instead));
}

std::string placed_on(const Json &said) {
    const Json *provider = said.get("provider"), *device = said.get("device");
    return !provider ? "" : " on " + provider->text + (device ? " (" + device->text + ")" : "");
}

// What computes, where a device beside the processor does; that it is the processor instead is said as a
// warning.
void announce(const Placement &placed) {
    size_t all = 0;
    for (auto &[name, count] : placed.nodes) all += count;
    say("computing on " + placed.provider + " (" + placed.device + "), " +
        std::to_string(placed.nodes.at(placed.provider)) + " of " + std::to_string(all) + " nodes\n");
}

// A GPU wants its batches whole, and shares each operator among its own threads.
Error batch_for(const Placement &placed, const Bundle &bundle, const EmbedOptions &options,
                Batching &batching) {
    if (!options.batch_size && !bundle.batch_dependent) batching.texts = placed.batch_size;
    batching.tokens = UNLIMITED;
    batching.workers = 1;
    if (!placed.largest_batch || batching.texts <= placed.largest_batch) return {};
    return fail(USAGE, "--batch-size " + std::to_string(batching.texts) + ": the bundle's engine takes " +
                           std::to_string(placed.largest_batch) + " texts at most");
}

Error open_gpu(const Bundle &bundle, const EmbedOptions &options, int threads, Batching &batching,
               std::unique_ptr<Encoder> &encoder) {
    const Json *said = bundle.manifest.at("runtime", "provider");
    if (!said || said->is(Json::NONE)) return {};
    // As long as the process: sessions point to it.
    Provider &provider = *new Provider;
    if (Error error = provider.open(bundle, *said)) return error;
    auto gpu = std::make_unique<GpuEncoder>(&provider, "");
    Error error = gpu->open_on_device(bundle, threads);
    if (!error) {
        if (options.announced || is_terminal(2)) announce(*gpu->placement());
        error = batch_for(*gpu->placement(), bundle, options, batching);
        encoder = std::move(gpu);
        return error;
    }
    if (error.code != DEVICE || !options.allow_cpu) return error;
    say("warning: " + error.message + "; computing on the processor\n");
    gpu.reset();
    auto cpu = std::make_unique<GpuEncoder>(nullptr, error.message);
    if (Error failed = cpu->open_on_cpu(bundle, threads)) return failed;
    encoder = std::move(cpu);
    return {};
}

}  // namespace

extern const Feature GPU_FEATURE = [] {
    Feature feature;
    feature.name = "gpu";
    feature.commands = EMBED;
    feature.run = warm_up;
    feature.open_encoder = open_gpu;
    feature.provider_of = provider_of;
    feature.add_placement = add_placed;
    feature.placed_on = placed_on;
    feature.end = GpuEncoder::end_session;
    return feature;
}();

}  // namespace embed
