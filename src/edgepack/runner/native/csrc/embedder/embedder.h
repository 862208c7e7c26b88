// Texts to vectors: tokenizer, batches, model.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hosted.h"
#include "embedder/bundle.h"
#include "encoder/encoder.h"
#include "tokenizer/tokenizer.h"

namespace embed {

// 0 and empty are the bundle's own ways.
struct EmbedOptions {
    size_t batch_size = 0, max_length = 0, dimension = 0;
    int threads = 0;
    // Texts come one by one: the threads share each of them, and not the batches.
    bool alone = false;
    // Where the device that the bundle was made for will not do, the processor may.
    bool allow_cpu = false;
    // What computes is said wherever somebody looks later, and not on a terminal alone.
    bool announced = false;
    std::string prefix;
};

// How texts go to the model together.
struct Batching {
    size_t texts = 0;
    // Of a batch, padding included; UNLIMITED: any number.
    size_t tokens = 0;
    // Batches at once.
    int workers = 1;
};

// In the place of a number of tokens: batches are not made smaller for long texts.
inline constexpr size_t UNLIMITED = SIZE_MAX;

// Fewer numbers a vector, where the model was trained so that its first ones say the most (Matryoshka
// representation).
struct MatryoshkaCut {
    size_t dimension = 0;  // 0: whole vectors
    bool centered = false;

    // A code of 2 for a dimension that the model does not support.
    Error open(const Bundle &bundle, size_t wanted);
    // The first numbers of a vector of `whole`, at length 1.
    void place(const float *vector, size_t whole, float *target) const;
};

struct ReadOptions;
struct ModelOutputs;
struct TextOutputs;
struct Chunk;
struct ChunkOptions;
struct JoinedChunks;

class Embedder {
public:
    // A code of 2 for what this model cannot do, 4 and 5 for what is damaged.
    Error open(const Bundle &bundle, const EmbedOptions &options);
    // Appends a vector, float32 [dimension()], for each text, in their order. Texts are valid UTF-8.
    Error embed(const std::vector<std::string_view> &texts, std::vector<float> &vectors) const;
    // On so many threads; 0: on all of them.
    Error embed_tokens(const std::vector<Encoding> &encoded, std::vector<float> &vectors,
                       size_t workers = 0) const;
    // One batch, run as it is.
    Error embed_batch(const std::vector<Encoding> &encoded, std::vector<float> &vectors) const;
    Error encode(std::string_view text, Encoding &encoding) const;
    // As embed() does, with the prefix.
    Error encode_prefixed(std::string_view text, Encoding &encoding) const;
    // A text together with each of others. A code of 2 where there is no room for a pair, 4 where the
    // tokenizer knows none.
    Error encode_pairs(std::string_view first, const std::vector<std::string_view> &seconds,
                       std::vector<Encoding> &encoded) const;

    // Of models that give more than a vector a text (outputs/model_outputs.cc): what each text gives, in
    // their order.
    Error embed_outputs(const ModelOutputs &given, const ReadOptions &side,
                        const std::vector<std::string_view> &texts, std::vector<TextOutputs> &made) const;

    // Of long texts (chunks/chunks.cc): appends their chunks in order, and a vector for each.
    Error embed_chunks(const std::vector<std::string_view> &texts, const ChunkOptions &options,
                       std::vector<Chunk> &chunks, std::vector<float> &vectors) const;
    // Appends the chunks of one text, each of so many tokens at most with the prefix; those beyond `most` may
    // be missing. A code of 2 for a number that leaves no room, or that the model does not take.
    Error split(std::string_view text, const std::string &prefix, size_t tokens, std::vector<Chunk> &chunks,
                size_t most = SIZE_MAX) const;
    // Of each text as many chunks together as the model takes.
    Error join(const std::vector<Chunk> &chunks, const std::vector<std::string_view> &parts,
               const std::string &prefix, JoinedChunks &joined) const;
    // Appends a vector for each chunk.
    Error embed_joined(const JoinedChunks &joined, std::vector<float> &vectors) const;

    // The user's own module, where there is one, before and behind the model: texts as they come, with their
    // prefix.
    bool has_module() const { return HOSTED && (prepares_ || finishes_); }
    Error prepare(std::vector<std::string> &texts) const;
    // In place: whole vectors, not shortened ones, of texts that are prepared.
    Error finish(const std::vector<std::string> &texts, float *vectors) const;

    size_t dimension() const { return dimension_; }
    size_t batch_size() const { return batching_.texts; }
    int threads() const { return threads_; }
    size_t max_length() const { return max_length_; }
    // Null: the bundle was made for the processor.
    const Placement *placement() const { return encoder_->placement(); }
    const Tokenizer &tokenizer() const { return tokenizer_; }

private:
    Error open_model(const Bundle &bundle, const EmbedOptions &options);
    Error open_length(const Bundle &bundle, size_t max_length);
    Error open_module(const Bundle &bundle);
    Error embed_around(const std::vector<std::string_view> &texts, std::vector<float> &vectors) const;
    std::vector<size_t> by_length(const std::vector<Encoding> &encoded) const;
    std::vector<size_t> batch_starts(const std::vector<Encoding> &encoded,
                                     const std::vector<size_t> &order) const;
    // Runs each batch, the indices of its texts, on one of the threads.
    Error each_batch(const std::vector<Encoding> &encoded,
                     const std::function<Error(const size_t *chosen, size_t count)> &run,
                     size_t workers = 0) const;
    Batch batch_of(const std::vector<Encoding> &encoded, const size_t *chosen, size_t count) const;
    Error run(const std::vector<Encoding> &encoded, const size_t *chosen, size_t count,
              const MatryoshkaCut &cut, float *vectors) const;
    // As it goes out: finite, and shortened where that is asked for.
    Error finish_vector(const float *vector, const MatryoshkaCut &cut, float *target) const;
    Error encode_side(std::string_view text, const ReadOptions &side, Encoding &encoding) const;

    Tokenizer tokenizer_;
    std::unique_ptr<Encoder> encoder_;
    MatryoshkaCut cut_to_;
    std::string prefix_;
    Batching batching_;
    size_t dimension_ = 0, whole_ = 0, max_length_ = 0;
    int threads_ = 0;
    bool cut_ = false, prepares_ = false, finishes_ = false;
};

// Cosine of the angle between two vectors; 0 when one of them is all zeros.
double cosine(const float *first, const float *second, size_t dimension);
int available_cpus();

}  // namespace embed
