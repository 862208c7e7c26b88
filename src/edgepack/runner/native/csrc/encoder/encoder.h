// What computes vectors inside the program: ONNX Runtime, edgepack's engine, a table, or a plugin's own code.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace embed {

// Texts of equal length, one after the other: each vector has rows x length numbers.
struct Batch {
    size_t rows = 0, length = 0;
    std::vector<int64_t> ids, mask, types;
    // Tokens of each text, what is behind them is padding; those that the mask hides from others have vectors, too.
    std::vector<size_t> sizes = {};
};

// What the model gives for each token beside the text's vector: rows x length x width numbers.
struct TokenVectors {
    size_t width = 0;
    std::vector<float> numbers;
};

// Where the model of a bundle runs that was made for a device beside the processor.
struct Placement {
    // The execution provider that really runs, and which device it runs on.
    std::string provider, device;
    // Why it is the processor; empty: it is not.
    std::string instead;
    // How many nodes of the graph each provider has.
    std::map<std::string, size_t> nodes;
    // Texts at once, as usual and at most; 0: as on the processor, and any number.
    size_t batch_size = 0, largest_batch = 0;
    // Folders in which the provider keeps what it made for this device.
    std::vector<std::string> cache;
};

class Encoder {
public:
    virtual ~Encoder() = default;
    // Null: the bundle was made for the processor.
    virtual const Placement *placement() const { return nullptr; }
    // Appends rows x dimension numbers to `vectors`, and to `tokens`, where it is not null and its width not
    // 0, what it says. Several threads call it at once, each with a batch of its own.
    virtual Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors,
                      TokenVectors *tokens) const = 0;
};

// What --info says of it.
struct EncoderFacts {
    // What makes vectors where the manifest names no runtime; null: the manifest names one, and its library.
    const char *instead;
    // What that runtime is called, with a space behind, and whether it is reduced to kernels that the
    // manifest lists.
    const char *name;
    bool reduced;
};

// Each encoder defines these two. `library` is the runtime's, empty where there is none; so many `threads`
// share a batch.
extern const EncoderFacts ENCODER;
Error open_encoder(const std::string &library, const std::string &model, int threads,
                   std::unique_ptr<Encoder> &encoder);

}  // namespace embed
