// ONNX Runtime as an encoder: integers [batch, sequence] in, float32 [batch, dimension] out.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/ort.h"
#include "tokenizer/table.h"

namespace embed {

class OrtEncoder : public Encoder {
public:
    OrtEncoder() = default;
    OrtEncoder(const OrtEncoder &) = delete;
    OrtEncoder &operator=(const OrtEncoder &) = delete;
    ~OrtEncoder() override;
    // Maps the model and loads it; a code of 5 for what the runtime refuses.
    Error open(const std::string &library, const std::string &model, int threads);
    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors,
              TokenVectors *tokens) const override;

protected:
    // Makes the session from the model's file, with the options as they are.
    virtual Error load(const std::string &model);
    Error error_of(OrtStatus *status, const char *what) const;
    Error does_not_load(OrtStatus *status) const;

    const Ort *ort_ = nullptr;
    OrtEnv *env_ = nullptr;
    OrtSessionOptions *options_ = nullptr;
    OrtSession *session_ = nullptr;
    // Otherwise the environment, and with it the libraries that it has loaded, ends with the process.
    bool releases_env_ = true;

private:
    Error create_session();
    bool reads_little() const;
    Error name_inputs();
    Error compute(const Batch &batch, const char *const *names, size_t count, OrtValue **outputs) const;
    Error read(OrtValue *output, std::initializer_list<size_t> expected, std::vector<float> &numbers) const;

    Mapping model_;
    bool returns_pages_ = false;
    OrtMemoryInfo *memory_ = nullptr;
    std::vector<std::string> inputs_;
    std::string output_;
};

}  // namespace embed
