#include "session.h"

#include <dlfcn.h>

namespace embed {

namespace {

enum Type { FLOAT32 = 4, INT64 = 10 };  // ov_element_type_e

constexpr const char *DOES_NOT_LOAD = "the model does not load: ", *DOES_NOT_RUN = "the model does not run: ";

}  // namespace

Error OpenVinoEncoder::said(const char *what) const {
    return fail(RUNTIME, what + std::string(api_.last_error()), TRY_SELF_TEST);
}

Error OpenVinoEncoder::load(const std::string &library) {
    void *opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!opened) return fail(RUNTIME, std::string("OpenVINO does not load: ") + dlerror(), TRY_SELF_TEST);
    const char *missing = nullptr;
    auto find = [&](auto &function, const char *name) {
        void *found = dlsym(opened, name);
        if (!found) missing = name;
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find(api_.last_error, "ov_get_last_err_msg");
    find(api_.core_create, "ov_core_create");
    find(api_.compile, "ov_core_compile_model_from_file");
    find(api_.inputs, "ov_compiled_model_inputs_size");
    find(api_.input, "ov_compiled_model_input_by_index");
    find(api_.name_of, "ov_port_get_any_name");
    find(api_.free, "ov_free");
    find(api_.port_free, "ov_output_const_port_free");
    find(api_.request, "ov_compiled_model_create_infer_request");
    find(api_.request_free, "ov_infer_request_free");
    find(api_.tensor, "ov_tensor_create_from_host_ptr");
    find(api_.tensor_free, "ov_tensor_free");
    find(api_.shape, "ov_tensor_get_shape");
    find(api_.shape_free, "ov_shape_free");
    find(api_.data, "ov_tensor_data");
    find(api_.set, "ov_infer_request_set_tensor");
    find(api_.infer, "ov_infer_request_infer");
    find(api_.output, "ov_infer_request_get_output_tensor");
    if (missing) return fail(RUNTIME, std::string("OpenVINO has no function ") + missing, TRY_SELF_TEST);
    return {};
}

Error OpenVinoEncoder::open(const std::string &library, const std::string &model, int threads) {
    if (Error error = load(library)) return error;
    std::string count = std::to_string(threads);
    // Four words: two properties. fp32 as it is said, also where a processor is quicker in fewer bits.
    if (api_.core_create(&core_) ||
        api_.compile(core_, model.c_str(), "CPU", 4, &model_, "INFERENCE_NUM_THREADS", count.c_str(), "INFERENCE_PRECISION_HINT", "f32"))
        return said(DOES_NOT_LOAD);
    return name_inputs();
}

Error OpenVinoEncoder::name_inputs() {
    size_t count = 0;
    if (api_.inputs(model_, &count)) return said(DOES_NOT_LOAD);
    for (size_t index = 0; index < count; index++) {
        void *port = nullptr;
        char *name = nullptr;
        if (api_.input(model_, index, &port) || api_.name_of(port, &name)) return said(DOES_NOT_LOAD);
        inputs_.emplace_back(name);
        api_.free(name);
        api_.port_free(port);
        if (inputs_.back() != "input_ids" && inputs_.back() != "attention_mask" && inputs_.back() != "token_type_ids")
            return fail(RUNTIME, DOES_NOT_LOAD + ("it wants " + inputs_.back()) + ", which a text does not give", TRY_SELF_TEST);
    }
    return {};
}

Error OpenVinoEncoder::run(const Batch &batch, size_t dimension, std::vector<float> &vectors, TokenVectors *) const {
    // A compiled model has streams of its own; with one, requests would wait for each other inside.
    std::lock_guard<std::mutex> held(one_);
    ov_infer_request_t *request = nullptr;
    if (api_.request(model_, &request)) return said(DOES_NOT_RUN);
    Error error = feed(request, batch);
    if (!error && api_.infer(request)) error = said(DOES_NOT_RUN);
    if (!error) error = read(request, batch, dimension, vectors);
    api_.request_free(request);
    return error;
}

Error OpenVinoEncoder::feed(ov_infer_request_t *request, const Batch &batch) const {
    int64_t sides[2] = {int64_t(batch.rows), int64_t(batch.length)};
    for (const std::string &name : inputs_) {
        const auto &column = name == "input_ids" ? batch.ids : name == "attention_mask" ? batch.mask : batch.types;
        ov_tensor_t *tensor = nullptr;
        if (api_.tensor(INT64, ov_shape_t{2, sides}, const_cast<int64_t *>(column.data()), &tensor)) return said(DOES_NOT_RUN);
        int failed = api_.set(request, name.c_str(), tensor);
        api_.tensor_free(tensor);
        if (failed) return said(DOES_NOT_RUN);
    }
    return {};
}

Error OpenVinoEncoder::read(ov_infer_request_t *request, const Batch &batch, size_t dimension, std::vector<float> &vectors) const {
    ov_tensor_t *tensor = nullptr;
    ov_shape_t shape{};
    void *data = nullptr;
    if (api_.output(request, &tensor)) return said(DOES_NOT_RUN);
    bool failed = api_.shape(tensor, &shape) || api_.data(tensor, &data);
    bool fits = !failed && shape.rank == 2 && shape.dims[0] == int64_t(batch.rows) && shape.dims[1] == int64_t(dimension);
    if (fits) vectors.insert(vectors.end(), static_cast<float *>(data), static_cast<float *>(data) + batch.rows * dimension);
    if (shape.dims) api_.shape_free(&shape);
    api_.tensor_free(tensor);
    if (failed) return said(DOES_NOT_RUN);
    return fits ? Error{} : fail(RUNTIME, "the model's vectors are not as long as the manifest says", TRY_SELF_TEST);
}

const EncoderFacts ENCODER = {nullptr, "OpenVINO ", false};

Error open_encoder(const std::string &library, const std::string &model, int threads, std::unique_ptr<Encoder> &encoder) {
    auto made = std::make_unique<OpenVinoEncoder>();
    Error error = made->open(library, model, threads);
    encoder = std::move(made);
    return error;
}

}  // namespace embed
