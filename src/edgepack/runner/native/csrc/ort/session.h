// A text-embedding model: integers [batch, sequence] in, float32 [batch, dimension] out.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "ort/ort.h"
#include "tokenizer/table.h"

namespace embed {

// Rows of equal length, one after the other.
struct Batch {
    size_t rows = 0, length = 0;
    std::vector<int64_t> ids, mask, types;
};

class Session {
public:
    // What makes vectors where the manifest names no runtime, in words; null where it must name one.
    static constexpr const char *INSTEAD = nullptr;
    // What that runtime is called, before its version, and whether it is reduced to kernels that the manifest lists.
    static constexpr const char *NAME = "ONNX Runtime ";
    static constexpr bool REDUCED = true;

    Session() = default;
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    ~Session();
    // Maps the model and loads it; a code of 5 for what the runtime refuses.
    Error open(const std::string &library, const std::string &model, int threads);
    // Appends rows x dimension numbers to `vectors`. Not to be called by two threads at once with one Batch.
    Error run(Batch &batch, size_t dimension, std::vector<float> &vectors) const;
    // The same, and rows x length x width numbers of what each token has (outputs/session_tokens.cc); width 0: it has nothing.
    Error run_tokens(Batch &batch, size_t dimension, std::vector<float> &vectors, size_t width, std::vector<float> &tokens) const;

private:
    Error load();
    bool reads_little() const;
    Error name_inputs();
    Error compute(Batch &batch, const char *const *names, size_t count, OrtValue **outputs) const;
    Error read(OrtValue *output, const std::vector<size_t> &expected, std::vector<float> &numbers) const;
    Error said(OrtStatus *status, const char *what) const;

    const Ort *ort_ = nullptr;
    Mapping model_;
    bool returns_pages_ = false;
    OrtEnv *env_ = nullptr;
    OrtSessionOptions *options_ = nullptr;
    OrtSession *session_ = nullptr;
    OrtMemoryInfo *memory_ = nullptr;
    std::vector<std::string> inputs_;
    std::string output_;
};

}  // namespace embed
