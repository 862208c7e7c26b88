// A text-embedding model run by OpenVINO: integers [batch, sequence] in, float32 [batch, dimension] out.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "encoder/encoder.h"

struct ov_core_t;
struct ov_compiled_model_t;
struct ov_infer_request_t;
struct ov_tensor_t;
// A pointer to the numbers lies in it: openvino/c/ov_shape.h.
struct ov_shape_t {
    int64_t rank;
    int64_t *dims;
};

namespace embed {

// The functions of OpenVINO's C API that are called; each gives 0 where it went well.
struct OpenVino {
    const char *(*last_error)();
    int (*core_create)(ov_core_t **);
    int (*compile)(const ov_core_t *, const char *path, const char *device, size_t words, ov_compiled_model_t **, ...);
    int (*inputs)(const ov_compiled_model_t *, size_t *);
    int (*input)(const ov_compiled_model_t *, size_t, void **port);
    int (*name_of)(const void *port, char **);
    void (*free)(const char *);
    void (*port_free)(void *);
    int (*request)(const ov_compiled_model_t *, ov_infer_request_t **);
    void (*request_free)(ov_infer_request_t *);
    int (*tensor)(int type, ov_shape_t, void *, ov_tensor_t **);
    void (*tensor_free)(ov_tensor_t *);
    int (*shape)(const ov_tensor_t *, ov_shape_t *);
    int (*shape_free)(ov_shape_t *);
    int (*data)(const ov_tensor_t *, void **);
    int (*set)(ov_infer_request_t *, const char *, const ov_tensor_t *);
    int (*infer)(ov_infer_request_t *);
    int (*output)(const ov_infer_request_t *, ov_tensor_t **);
};

class OpenVinoEncoder final : public Encoder {
public:
    // Loads the library and compiles the model; a code of 5 for what OpenVINO refuses.
    Error open(const std::string &library, const std::string &model, int threads);
    // One text or batch after the other.
    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors, TokenVectors *tokens) const override;

private:
    Error load(const std::string &library);
    Error name_inputs();
    Error feed(ov_infer_request_t *request, const Batch &batch) const;
    Error read(ov_infer_request_t *request, const Batch &batch, size_t dimension, std::vector<float> &vectors) const;
    Error said(const char *what) const;

    OpenVino api_{};
    ov_core_t *core_ = nullptr;
    ov_compiled_model_t *model_ = nullptr;
    std::vector<std::string> inputs_;
    mutable std::mutex one_;
};

}  // namespace embed
