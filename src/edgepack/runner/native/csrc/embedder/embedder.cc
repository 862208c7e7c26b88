#include "embedder/embedder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <sched.h>

#include "embedder/processor.h"
#include "features/feature.h"
#include "base/threads.h"

namespace embed {

namespace {
// A batch is as many texts as that, and fewer where they are long: more tokens together are hardly faster,
// and take more memory.
constexpr size_t BATCH_SIZE = 8, BATCH_TOKENS = 64;
// Beyond BATCH_TOKENS, padding may be this share of a batch at most.
constexpr size_t PADDING_SHARE = 64;
constexpr int MAX_THREADS = 4;

std::string model_name(const Bundle &bundle) { return bundle.text("model", "name"); }
}  // namespace

int available_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

Error Embedder::open(const Bundle &bundle, const EmbedOptions &options) {
    if (Error error = require_processor(bundle)) return error;
    threads_ = options.threads ? options.threads : std::min(MAX_THREADS, available_cpus());
    // With vectors of tokens, it names how a text is read.
    if (!options.prefix.empty() && !bundle.manifest.at("model", "outputs", "multi_vector")) {
        const Json *prompt = bundle.prompt(options.prefix);
        if (!prompt)
            return fail(USAGE,
                        "--prefix " + options.prefix + ": " + model_name(bundle) + " has no " +
                            options.prefix + " prefix",
                        "without a prefix, texts go to the model unchanged");
        prefix_ = prompt->text;
    }
    whole_ = dimension_ = bundle.dimension;
    if (options.dimension) {
        if (Error error = cut_to_.open(bundle, options.dimension)) return error;
        dimension_ = options.dimension;
    }
    // Where a text's vector depends on its neighbours in the batch, a text goes alone.
    batching_.texts = options.batch_size ? options.batch_size : bundle.batch_dependent ? 1 : BATCH_SIZE;
    if (options.max_length > bundle.max_length)
        return fail(USAGE, "--max-length " + std::to_string(options.max_length) + ": the model takes " +
                               std::to_string(bundle.max_length) + " tokens at most");
    if (Error error = tokenizer_.open(bundle.tokenizer)) return error;
    if (Error error = open_length(bundle, options.max_length)) return error;
    if (Error error = open_module(bundle)) return error;
    // No more tokens than the longest text has: then no batch takes more memory than that text alone, for
    // what attention takes (rows x length x length) is no more either.
    batching_.tokens = options.batch_size ? std::max(BATCH_TOKENS, max_length_) : BATCH_TOKENS;
    // Batches side by side, each on a thread of its own, are nearly twice as fast as threads that share each
    // operator.
    batching_.workers = options.alone ? 1 : threads_;
    return open_model(bundle, options);
}

Error Embedder::open_model(const Bundle &bundle, const EmbedOptions &options) {
    const int threads = options.alone ? threads_ : 1;
    if (auto open = feature_with(&Feature::open_encoder))
        if (Error error = open(bundle, options, threads, batching_, encoder_); error || encoder_)
            return error;
    return open_encoder(bundle.library, bundle.model, threads, encoder_);
}

Error Embedder::open_length(const Bundle &bundle, size_t max_length) {
    max_length_ = max_length ? max_length : bundle.max_length;
    cut_ = max_length > 0;
    size_t special = tokenizer_.special_tokens();
    if (max_length_ > special) return {};
    return fail(USAGE, "--max-length " + std::to_string(max_length_) + " leaves no room beside the " +
                           std::to_string(special) + " special tokens");
}

Error Embedder::open_module(const Bundle &bundle) {
    if (!bundle.manifest.at("runner", "module")) return {};
    if (!HOSTED || !STARTED_BY)
        return fail(BUNDLE, "this bundle is for a program with Python",
                    "use the program that came with the bundle");
    std::string path;
    if (Error error = bundle.file("runner", "module", path)) return error;
    return STARTED_BY->open_module(path, prepares_, finishes_);
}

Error Embedder::prepare(std::vector<std::string> &texts) const {
    if (!HOSTED || !prepares_) return {};
    std::vector<std::string> prepared;
    if (Error error = STARTED_BY->prepare({texts.begin(), texts.end()}, prepared)) return error;
    texts.swap(prepared);
    return {};
}

Error Embedder::finish(const std::vector<std::string> &texts, float *vectors) const {
    return HOSTED && finishes_ ? STARTED_BY->finish({texts.begin(), texts.end()}, whole_, vectors) : Error{};
}

Error MatryoshkaCut::open(const Bundle &bundle, size_t wanted) {
    if (wanted == bundle.dimension) return {};
    const Json *trained = bundle.manifest.at("model", "matryoshka");
    std::string asked = std::to_string(wanted) + " dimensions: ";
    if (!trained || !trained->is(Json::OBJECT))
        return fail(USAGE, asked + model_name(bundle) + " does not support shorter vectors",
                    "it has no Matryoshka training; its vectors have " + std::to_string(bundle.dimension) +
                        " numbers");
    std::vector<size_t> allowed{bundle.dimension};
    if (const Json *listed = trained->get("dimensions"))
        for (const Json &item : listed->items) allowed.push_back(size_t(item.number()));
    bool listed = allowed.size() > 1;
    std::sort(allowed.begin(), allowed.end());
    allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
    if (listed && !std::binary_search(allowed.begin(), allowed.end(), wanted)) {
        std::string hint = "it supports ";
        for (size_t number : allowed)
            (hint += number == allowed.front() ? "" : ", ") += std::to_string(number);
        return fail(USAGE, asked + model_name(bundle) + " does not support that dimension", hint);
    }
    if (wanted > bundle.dimension)
        return fail(USAGE,
                    asked + "the model's vectors have " + std::to_string(bundle.dimension) + " numbers");
    dimension = wanted;
    // nomic-embed-text-v1.5 was trained with a layer normalisation before the cut; its scale goes in the
    // division.
    const Json *norm = trained->get("layer_norm");
    centered = norm && norm->truth();
    return {};
}

Error Embedder::encode(std::string_view text, Encoding &encoding) const {
    return tokenizer_.encode(text, max_length_, encoding);
}

Error Embedder::encode_prefixed(std::string_view text, Encoding &encoding) const {
    return prefix_.empty() ? encode(text, encoding) : encode(prefix_ + std::string(text), encoding);
}

Error Embedder::embed(const std::vector<std::string_view> &texts, std::vector<float> &vectors) const {
    if (has_module()) return embed_around(texts, vectors);
    std::vector<Encoding> encoded(texts.size());
    for (size_t index = 0; index < texts.size(); index++)
        if (Error error = encode_prefixed(texts[index], encoded[index])) return error;
    return embed_tokens(encoded, vectors);
}

// As embed(), with the user's module around the model: it finishes whole vectors, which are shortened behind
// it.
Error Embedder::embed_around(const std::vector<std::string_view> &texts, std::vector<float> &vectors) const {
    std::vector<std::string> prepared;
    std::vector<Encoding> encoded(texts.size());
    std::vector<float> made(texts.size() * whole_);
    for (std::string_view text : texts) prepared.push_back(prefix_ + std::string(text));
    if (Error error = prepare(prepared)) return error;
    for (size_t index = 0; index < texts.size(); index++)
        if (Error error = encode(prepared[index], encoded[index])) return error;
    if (Error error = each_batch(encoded, [&](const size_t *chosen, size_t count) {
            return run(encoded, chosen, count, {}, made.data());
        }))
        return error;
    if (Error error = finish(prepared, made.data())) return error;
    size_t before = vectors.size();
    vectors.resize(before + texts.size() * dimension_);
    for (size_t row = 0; row < texts.size(); row++)
        cut_to_.place(&made[row * whole_], whole_, &vectors[before + row * dimension_]);
    return {};
}

std::vector<size_t> Embedder::by_length(const std::vector<Encoding> &encoded) const {
    std::vector<size_t> order(encoded.size());
    std::iota(order.begin(), order.end(), size_t(0));
    // Texts of like length together: what is padded is computed for nothing. The longest first, so that
    // threads end together.
    if (batching_.texts > 1)
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return encoded[a].ids.size() > encoded[b].ids.size(); });
    return order;
}

// Where each batch begins in that order, and the end of the last.
std::vector<size_t> Embedder::batch_starts(const std::vector<Encoding> &encoded,
                                           const std::vector<size_t> &order) const {
    std::vector<size_t> starts{0};
    auto length = [&](size_t place) { return std::max<size_t>(1, encoded[order[place]].ids.size()); };
    for (size_t at = 0; at < order.size(); starts.push_back(at)) {
        const size_t start = at;
        size_t longest = 0, tokens = 0;
        for (; at < order.size() && at - start < batching_.texts; at++) {
            size_t wide = std::max(longest, length(at)), padded = (at - start + 1) * wide,
                   padding = padded - tokens - length(at);
            bool worth = padded <= BATCH_TOKENS || padding * PADDING_SHARE <= padded;
            if (at > start && batching_.tokens != UNLIMITED && (padded > batching_.tokens || !worth)) break;
            longest = wide;
            tokens += length(at);
        }
    }
    return starts;
}

Error Embedder::embed_tokens(const std::vector<Encoding> &encoded, std::vector<float> &vectors,
                             size_t workers) const {
    size_t before = vectors.size();
    if constexpr (sizeof(size_t) < 8)
        if (encoded.size() >= (PTRDIFF_MAX / sizeof(float) - before) / dimension_)
            return fail(RUNTIME,
                        "the vectors of so many texts at once are more than 32 bits of addresses hold",
                        "a smaller --batch-size");
    vectors.resize(before + encoded.size() * dimension_);
    return each_batch(
        encoded,
        [&](const size_t *chosen, size_t count) {
            return run(encoded, chosen, count, cut_to_, vectors.data() + before);
        },
        workers);
}

Error Embedder::embed_batch(const std::vector<Encoding> &encoded, std::vector<float> &vectors) const {
    std::vector<size_t> order(encoded.size());
    std::iota(order.begin(), order.end(), size_t(0));
    vectors.resize(encoded.size() * dimension_);
    return run(encoded, order.data(), order.size(), cut_to_, vectors.data());
}

Error Embedder::each_batch(const std::vector<Encoding> &encoded,
                           const std::function<Error(const size_t *, size_t)> &run, size_t workers) const {
    const std::vector<size_t> order = by_length(encoded), starts = batch_starts(encoded, order);
    std::atomic<size_t> next{0};
    std::mutex mutex;
    Error failed;
    auto work = [&] {
        for (size_t batch; (batch = next++) + 1 < starts.size();) {
            size_t start = starts[batch];
            if (Error error = run(&order[start], starts[batch + 1] - start)) {
                std::lock_guard<std::mutex> held(mutex);
                if (!failed) failed = error;
                next = starts.size();
            }
        }
    };
    on_threads(std::min(workers ? workers : size_t(batching_.workers), starts.size() - 1), work);
    return failed;
}

Batch Embedder::batch_of(const std::vector<Encoding> &encoded, const size_t *chosen, size_t count) const {
    Batch batch;
    batch.rows = count;
    for (size_t row = 0; row < count; row++)
        batch.length = std::max(batch.length, encoded[chosen[row]].ids.size());
    for (size_t row = 0; row < count; row++) {
        const Encoding &text = encoded[chosen[row]];
        auto fill = [&](std::vector<int64_t> &column, int64_t filler) {
            column.resize((row + 1) * batch.length, filler);
        };
        batch.sizes.push_back(text.ids.size());
        batch.ids.insert(batch.ids.end(), text.ids.begin(), text.ids.end());
        batch.types.insert(batch.types.end(), text.types.begin(), text.types.end());
        batch.mask.insert(batch.mask.end(), std::min(text.ids.size(), text.attended), 1);
        fill(batch.ids, tokenizer_.pad_id());
        fill(batch.types, 0);
        fill(batch.mask, 0);
    }
    return batch;
}

Error Embedder::run(const std::vector<Encoding> &encoded, const size_t *chosen, size_t count,
                    const MatryoshkaCut &cut, float *vectors) const {
    Batch batch = batch_of(encoded, chosen, count);
    std::vector<float> made;
    if (Error error = encoder_->run(batch, whole_, made, nullptr)) return error;
    for (size_t row = 0; row < count; row++) {
        float *target = vectors + chosen[row] * (cut.dimension ? cut.dimension : whole_);
        if (Error error = finish_vector(&made[row * whole_], cut, target)) return error;
    }
    return {};
}

Error Embedder::finish_vector(const float *vector, const MatryoshkaCut &cut, float *target) const {
    if (!std::isfinite(std::accumulate(vector, vector + whole_, 0.0)))
        return fail(RUNTIME, "the model gave a vector with numbers that are not finite", TRY_SELF_TEST);
    cut.place(vector, whole_, target);
    return {};
}

void MatryoshkaCut::place(const float *vector, size_t whole, float *target) const {
    if (!dimension) return void(std::copy(vector, vector + whole, target));
    double mean = centered ? std::accumulate(vector, vector + whole, 0.0) / double(whole) : 0, square = 0;
    for (size_t index = 0; index < dimension; index++)
        square += (vector[index] - mean) * (vector[index] - mean);
    double length = std::sqrt(square);
    for (size_t index = 0; index < dimension; index++)
        target[index] = float(length > 0 ? (vector[index] - mean) / length : vector[index] - mean);
}

double cosine(const float *first, const float *second, size_t dimension) {
    long double product = 0, one = 0, other = 0;
    for (size_t index = 0; index < dimension; index++) {
        product += static_cast<long double>(first[index]) * second[index];
        one += static_cast<long double>(first[index]) * first[index];
        other += static_cast<long double>(second[index]) * second[index];
    }
    double norms = std::sqrt(double(one) * double(other));
    return norms > 0 ? double(product) / norms : 0;
}

}  // namespace embed
