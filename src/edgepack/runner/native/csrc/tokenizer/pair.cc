// Two texts in one sequence, for models that read both: linked where the model does.
#include "tokenizer/tokenizer.h"

namespace embed {

namespace {

// The section: special tokens before, between and after, the two texts' types, then id and type of each
// special token.
struct Frame {
    const uint32_t *words = nullptr;
    explicit Frame(Bytes section) {
        if (section.size < 20) return;
        words = section.as<uint32_t>();
        if ((uint64_t(words[0]) + words[1] + words[2]) * 8 + 20 > section.size) words = nullptr;
    }
    size_t specials() const { return words ? size_t(words[0]) + words[1] + words[2] : 0; }
};

// As tokenizers' truncate_encodings does it: the longer text is cut to what the shorter one leaves, and both
// to a half each where that is not enough.
void cut(size_t room, size_t &first, size_t &second) {
    size_t &shorter = first > second ? second : first, &longer = first > second ? first : second;
    if (shorter + longer <= room) return;
    longer = shorter > room ? shorter : std::max(shorter, room - shorter);
    if (shorter + longer > room) {
        shorter = room / 2;
        longer = shorter + room % 2;
    }
}

}  // namespace

bool Tokenizer::knows_pairs() const { return hosted_ || Frame(table_.section("pair")).words; }

size_t Tokenizer::pair_tokens() const { return hosted_ ? pair_ : Frame(table_.section("pair")).specials(); }

Error Tokenizer::encode_pair(std::string_view first, std::string_view second, size_t max_length,
                             Encoding &encoding) const {
    return HOSTED ? STARTED_BY->encode(first, &second, max_length, encoding.ids, encoding.types) : Error{};
}

void Tokenizer::encode_part(std::string_view text, Ids &ids) const {
    ids.values.clear();
    ids.limit = SIZE_MAX;
    encode_raw(text, ids);
}

void Tokenizer::join(const Ids &first, const Ids &second, size_t max_length, Encoding &encoding) const {
    Frame frame(table_.section("pair"));
    size_t specials = frame.specials(), room = max_length > specials ? max_length - specials : 0;
    size_t counts[2] = {first.values.size(), second.values.size()}, at = 0;
    cut(room, counts[0], counts[1]);
    encoding.ids.clear();
    encoding.types.clear();
    for (size_t part = 0; part < 3; part++) {
        for (size_t end = at + frame.words[part]; at < end; at++) {
            encoding.ids.push_back(frame.words[5 + 2 * at]);
            encoding.types.push_back(frame.words[6 + 2 * at]);
        }
        if (part == 2) break;
        const Ids &text = part ? second : first;
        encoding.ids.insert(encoding.ids.end(), text.values.begin(),
                            text.values.begin() + ptrdiff_t(counts[part]));
        encoding.types.resize(encoding.ids.size(), frame.words[3 + part]);
    }
    if (encoding.ids.empty()) {
        encoding.ids.push_back(pad_id_);
        encoding.types.push_back(0);
    }
}

}  // namespace embed
