// Texts to token ids, bit for bit as Hugging Face's tokenizers makes them of the same tokenizer.json.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/host.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/table.h"

namespace embed {

// Ids as they are made; once there are `limit`, the rest of the text no longer matters.
struct Ids {
    std::vector<uint32_t> values;
    size_t limit = 0;
    bool full() const { return values.size() >= limit; }
    void add(uint32_t id) {
        if (!full()) values.push_back(id);
    }
};

// What turns a piece of text between added tokens into ids: normalized already.
class TextModel {
public:
    virtual ~TextModel() = default;
    // `first` says that the piece begins the text.
    virtual void encode(std::string_view piece, bool first, Ids &ids) const = 0;
};

struct Encoding {
    std::vector<int64_t> ids, types;
    // How many of them, from the beginning, others attend to.
    size_t attended = SIZE_MAX;
};

class Tokenizer {
public:
    // A table or, where another program has started this one, a tokenizer.json that is tokenized there.
    Error open(const std::string &path);
    // The fewest tokens that a text can be cut to: its special ones.
    size_t special_tokens() const { return before_ + after_; }
    // `text` is valid UTF-8. At least one token, at most `max_length`, special ones included. Thread-safe.
    Error encode(std::string_view text, size_t max_length, Encoding &encoding) const;
    // What each of two texts gives without special tokens, all of it, and both together in the template for
    // pairs: the longer one is cut, as the library's `longest_first` cuts it. Only where knows_pairs(). With
    // its host: two texts together.
    bool hosted() const { return hosted_; }
    Error encode_pair(std::string_view first, std::string_view second, size_t max_length,
                      Encoding &encoding) const;
    void encode_part(std::string_view text, Ids &ids) const;
    void join(const Ids &first, const Ids &second, size_t max_length, Encoding &encoding) const;
    bool knows_pairs() const;
    // Special tokens of a pair.
    size_t pair_tokens() const;
    uint32_t pad_id() const { return pad_id_; }
    size_t before() const { return before_; }
    // How many ids there are.
    uint32_t size() const { return size_; }

private:
    Error open_hosted(const std::string &path);
    void encode_raw(std::string_view text, Ids &ids) const;
    void encode_normalized(std::string_view text, bool first, Ids &ids) const;

    Table table_;
    Normalizer normalizer_;
    std::unique_ptr<TextModel> model_;
    Trie added_, added_normalized_;
    // Not 0 for what words are made of; read only where a token stands alone.
    CodePointTable<uint8_t> words_;
    const uint32_t *added_ids_ = nullptr, *template_ = nullptr;
    uint32_t before_ = 0, after_ = 0, type_ = 0, pad_id_ = 0, size_ = 0, pair_ = 0;
    bool hosted_ = false;
};

// Null where what the model needs of the table is not sound.
template <class Model> std::unique_ptr<TextModel> open_model(const Table &table) {
    auto made = std::make_unique<Model>();
    if (!made->open(table)) return nullptr;
    return made;
}

std::unique_ptr<TextModel> open_wordpiece(const Table &table);
std::unique_ptr<TextModel> open_bpe(const Table &table);
std::unique_ptr<TextModel> open_unigram(const Table &table);

}  // namespace embed
