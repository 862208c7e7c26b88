// A transformer encoder without ONNX Runtime: token ids [batch, sequence] in, float32 [batch, dimension] out.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "encoder/encoder.h"
#include "kernels.h"
#include "plan.h"
#include "tokenizer/table.h"

namespace embed {

class Session final : public Encoder {
public:
    // Maps the plan; a code of 4 for one that is damaged. So many threads share a batch whose texts are long.
    Error open(const std::string &model, int threads);
    // Padding is not computed.
    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors, TokenVectors *tokens) const override {
        return run(batch, dimension, vectors, tokens, {});
    }
    // The same with a vector for each part of a row, where there are `ends`: behind the last token of each.
    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors, TokenVectors *tokens,
              const std::vector<std::vector<size_t>> &ends) const;

private:
    // Tokens of a batch that are pooled together: a text's, as far as others attend to them, or a part's.
    struct Span {
        size_t begin = 0, end = 0;
    };
#ifdef __wasm__
    static constexpr bool HAS_PARTS = false;  // a page asks for none, and downloads nothing of them
#else
    static constexpr bool HAS_PARTS = true;
#endif
    // The tokens of a batch's texts one after the other, and room for what is computed of them.
    struct Work {
        std::vector<uint32_t> ids, types, positions, starts, places;  // the last of tokens in the batch
        std::vector<uint32_t> seen;                                   // tokens of each text that others attend to: its first ones
        std::vector<Span> spans;                                      // of parts, where they were asked for
        std::vector<float> vectors, given;
        std::map<uint64_t, std::vector<float>> turns;  // of rotary positions, by where their frequencies are
        std::vector<std::unique_ptr<uint8_t[]>> buffers;
        std::vector<std::vector<float>> ranges;
        std::vector<float> attention;
        size_t tokens = 0, capacity = 0;
        size_t lanes = 1, room = 0;  // threads that share the batch, and what attention needs for each
        std::atomic<bool> unread{false};  // the disk did not give a word's row

        bool whole() const { return !HAS_PARTS || spans.empty(); }
        size_t vectors_in_all() const { return whole() ? starts.size() - 1 : spans.size(); }
        Span span(size_t at) const { return whole() ? Span{starts[at], size_t(starts[at]) + seen[at]} : spans[at]; }
    };
    // Rows that are computed together, and by which thread; where texts are pooled, the tokens of theirs that count.
    struct Few {
        size_t first = 0, count = 0, lane = 0, begin = 0, end = 0;
    };
    // What threads do next: the pieces of one stage, and when all are done those of the next. One that starts late, or never, is not missed.
    struct Progress {
        std::mutex mutex;
        std::condition_variable changed;
        size_t stage = 0, next = 0, done = 0;
        std::atomic<size_t> lanes{0};

        // Does pieces of a stage until none is left, and waits until all are done.
        void each(size_t wanted, size_t pieces, const std::function<void(size_t)> &work);
    };

    std::unique_ptr<Work> take() const;
    void give(std::unique_ptr<Work> work) const;
    Error fill(const Batch &batch, Work &work, bool all) const;
    Error reserve(Work &work, bool all) const;
    size_t rows_for(const Work &work, const Buffer &buffer) const;
    bool is_countable(const Work &work, size_t longest, size_t widest, size_t given) const;
    void compute(Work &work) const;
    void compute_stages(Work &work, Progress &progress) const;
    void compute_rows(Work &work, size_t step, size_t end, const Few &few) const;
    void lookup(const Step &step, Work &work, const Few &few) const;
    bool add_word(const Step &step, size_t row, float *to) const;
    void turn(Work &work, size_t longest) const;
    void attend(const Step &step, const Work &work, size_t piece, size_t lane) const;
    void pool(const Step &step, const Work &work, const Few &few) const;
    void make_vector(Work &work, size_t span, size_t lane) const;

    const float *numbers(uint64_t place) const { return place ? reinterpret_cast<const float *>(file_.data() + place) : nullptr; }
    // A buffer's rows from the first of a few on; of one that is not kept, there are only those, for each thread.
    uint8_t *rows(const Work &work, uint32_t buffer, const Few &few) const;
    float *floats(const Work &work, uint32_t buffer, const Few &few) const { return reinterpret_cast<float *>(rows(work, buffer, few)); }
    float *ranges(const Work &work, uint32_t buffer, const Few &few) const;
    size_t row_of(uint32_t buffer, const Few &few) const;

    Mapping file_;
    File words_;  // read when they are asked for, and kept by nobody
    Header header_{};
    size_t behind_ = 0;  // the first step behind the last POOL
    const Buffer *buffers_ = nullptr;
    const Step *steps_ = nullptr;
    const Kernels *kernels_ = nullptr;
    size_t threads_ = 1;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<Work>> idle_;
};

}  // namespace embed
