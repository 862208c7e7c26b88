// A table of vectors: token ids [batch, sequence] in, the mean of their rows out, float32 [batch, dimension].
#include "encoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tokenizer/table.h"

namespace embed {

namespace {

enum Flag : uint32_t { NORMALIZE = 1, MAPPED = 2, SCALED_TOKENS = 4, SCALED_ROWS = 8 };

constexpr float SMALLEST_NORM = 1e-12f;  // as torch.nn.functional.normalize

// In 64 bits where the machine has 32, too.
uint64_t aligned(uint64_t size) { return (size + 63) & ~uint64_t(63); }

// IEEE 754's half precision, finite: exact, denormal numbers too, and nothing but what a compiler can do to several at once.
float widened(uint16_t half) {
    uint32_t bits = uint32_t(half & 0x7FFF) << 13, sign = uint32_t(half & 0x8000) << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    number *= 0x1p112f;
    memcpy(&bits, &number, sizeof bits);
    bits |= sign;
    memcpy(&number, &bits, sizeof number);
    return number;
}

void add_scaled(const float *__restrict row, float scale, size_t count, float *__restrict sum) {
    for (size_t index = 0; index < count; index++) sum[index] += row[index] * scale;
}

void add_scaled(const uint16_t *__restrict row, float scale, size_t count, float *__restrict sum) {
    for (size_t index = 0; index < count; index++) sum[index] += widened(row[index]) * scale;
}

void add_scaled(const int8_t *__restrict row, float scale, size_t count, float *__restrict sum) {
    for (size_t index = 0; index < count; index++) sum[index] += float(row[index]) * scale;
}

class TableEncoder final : public Encoder {
public:
    // Maps the table; a code of 4 for one that is damaged.
    Error open(const std::string &model);
    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors, TokenVectors *) const override;

private:
    // As table.py writes it.
    struct Header {
        char magic[8];
        uint64_t size;
        uint32_t number_bytes, rows, dimension, tokens, unknown, flags, row_bytes, reserved[5];
    };
    static_assert(sizeof(Header) == 64);

    bool sound() const;
    void add(uint32_t token, float *sum) const;
    // Adds up the rows of a text's tokens; how many these were.
    size_t add_all(const int64_t *ids, size_t count, bool unknown_too, float *sum) const;

    Mapping file_;
    Header header_{};
    const uint8_t *vectors_ = nullptr, *rows_ = nullptr;
    const float *row_scales_ = nullptr, *token_scales_ = nullptr;
};

Error TableEncoder::open(const std::string &model) {
    if (int failure = file_.open(model.c_str()))
        return fail(BUNDLE, "cannot read " + model + ": " + strerror(failure), COPY_AGAIN);
    if (!sound()) return fail(BUNDLE, model + " is damaged: it is not the table that was made", COPY_AGAIN);
    uint64_t at = sizeof(Header);
    auto section = [&](bool there, uint64_t size) {
        const uint8_t *begin = there ? file_.data() + at : nullptr;
        if (there) at += aligned(size);
        return begin;
    };
    vectors_ = section(true, size_t(header_.rows) * header_.dimension * header_.number_bytes);
    row_scales_ = reinterpret_cast<const float *>(section(header_.flags & SCALED_ROWS, 4 * size_t(header_.rows)));
    rows_ = section(header_.flags & MAPPED, size_t(header_.tokens) * header_.row_bytes);
    token_scales_ = reinterpret_cast<const float *>(section(header_.flags & SCALED_TOKENS, 4 * size_t(header_.tokens)));
    return {};
}

// Whether the header is one, and the file as long as it says.
bool TableEncoder::sound() const {
    auto &header = const_cast<Header &>(header_);
    if (file_.size() < sizeof header) return false;
    memcpy(&header, file_.data(), sizeof header);
    const uint32_t bytes = header.number_bytes;
    bool known = memcmp(header.magic, "EDGETAB1", 8) == 0 && (bytes == 1 || bytes == 2 || bytes == 4) && header.rows &&
                 header.dimension && header.dimension <= 1 << 16 && header.tokens &&
                 (header.flags & MAPPED ? header.row_bytes == 2 || header.row_bytes == 4 : header.tokens == header.rows);
    if (!known) return false;
    uint64_t size = sizeof header + aligned(uint64_t(header.rows) * header.dimension * bytes);
    if (header.flags & SCALED_ROWS) size += aligned(4 * uint64_t(header.rows));
    if (header.flags & MAPPED) size += aligned(uint64_t(header.tokens) * header.row_bytes);
    if (header.flags & SCALED_TOKENS) size += aligned(4 * uint64_t(header.tokens));
    return size == header.size && size == file_.size();
}

void TableEncoder::add(uint32_t token, float *sum) const {
    uint32_t row = token;
    if (rows_ && header_.row_bytes == 2) row = reinterpret_cast<const uint16_t *>(rows_)[token];
    else if (rows_) row = reinterpret_cast<const uint32_t *>(rows_)[token];
    if (row >= header_.rows) return;
    float scale = (token_scales_ ? token_scales_[token] : 1) * (row_scales_ ? row_scales_[row] : 1);
    const uint8_t *vector = vectors_ + size_t(row) * header_.dimension * header_.number_bytes;
    if (header_.number_bytes == 4) add_scaled(reinterpret_cast<const float *>(vector), scale, header_.dimension, sum);
    if (header_.number_bytes == 2) add_scaled(reinterpret_cast<const uint16_t *>(vector), scale, header_.dimension, sum);
    if (header_.number_bytes == 1) add_scaled(reinterpret_cast<const int8_t *>(vector), scale, header_.dimension, sum);
}

size_t TableEncoder::add_all(const int64_t *ids, size_t count, bool unknown_too, float *sum) const {
    size_t added = 0;
    for (size_t index = 0; index < count; index++) {
        if (ids[index] < 0 || ids[index] >= header_.tokens) continue;
        if (ids[index] == header_.unknown && !unknown_too) continue;
        add(uint32_t(ids[index]), sum);
        added++;
    }
    return added;
}

Error TableEncoder::run(const Batch &batch, size_t dimension, std::vector<float> &vectors, TokenVectors *) const {
    if (dimension > header_.dimension)
        return fail(RUNTIME, "the table has " + std::to_string(header_.dimension) + " dimensions, the manifest says " +
                                 std::to_string(dimension), TRY_SELF_TEST);
    std::vector<float> sum(header_.dimension);
    for (size_t row = 0; row < batch.rows; row++) {
        const int64_t *ids = &batch.ids[row * batch.length], *mask = &batch.mask[row * batch.length];
        size_t count = 0;
        while (count < batch.length && mask[count]) count++;
        std::fill(sum.begin(), sum.end(), 0.0f);
        size_t added = add_all(ids, count, false, sum.data());
        // Unknown tokens say nothing beside others; a text of nothing else is what they are.
        if (!added) added = add_all(ids, count, true, sum.data());
        float by = 1 / float(std::max<size_t>(added, 1));
        if (header_.flags & NORMALIZE) {
            double square = 0;
            for (float number : sum) square += double(number) * number;
            by /= std::max(float(std::sqrt(square)) * by, SMALLEST_NORM);
        }
        for (size_t index = 0; index < dimension; index++) vectors.push_back(sum[index] * by);
    }
    return {};
}

}  // namespace

const EncoderFacts ENCODER = {"none: the mean of a table's rows", "", false};

Error open_encoder(const std::string &, const std::string &model, int, std::unique_ptr<Encoder> &encoder) {
    auto made = std::make_unique<TableEncoder>();
    Error error = made->open(model);
    encoder = std::move(made);
    return error;
}

}  // namespace embed
