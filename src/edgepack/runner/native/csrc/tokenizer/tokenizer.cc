#include "tokenizer/tokenizer.h"

#include "base/utf8.h"

using namespace std::string_view_literals;

namespace embed {

namespace {

constexpr std::string_view UNCOMPILED = ".json";

// Where the last code point of what ends at `end` begins.
size_t code_point_before(std::string_view text, size_t end) {
    size_t start = end - 1;
    while (start > 0 && (uint8_t(text[start]) & 0xC0) == 0x80) start--;
    return start;
}

// Where the white space at the end of the text begins.
size_t white_space_before(std::string_view text) {
    size_t end = text.size();
    while (end > 0) {
        size_t start = code_point_before(text, end), at = start;
        if (!is_white_space(next_code_point(text, at))) break;
        end = start;
    }
    return end;
}

// How much white space is at the beginning.
size_t white_space_after(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
        size_t next = at;
        if (!is_white_space(next_code_point(text, next))) break;
        at = next;
    }
    return at;
}

enum { LEFT = 1, RIGHT = 2, SINGLE = 4 };

// Whether a letter of a word, as `words` has them, stands right before `from` or at `to`.
bool in_word(std::string_view text, size_t from, size_t to, const CodePointTable<uint8_t> &words) {
    size_t before = from ? code_point_before(text, from) : 0;
    return (from && words[next_code_point(text, before)]) ||
           (to < text.size() && words[next_code_point(text, to)]);
}

// The text between the added tokens to `plain`, the tokens to `ids`, in their order.
template <class Plain>
void split_at_added(std::string_view text, const Trie &trie, const uint32_t *table,
                    const CodePointTable<uint8_t> &words, Ids &ids, Plain plain) {
    size_t start = 0;
    if (!trie.empty()) {
        for (size_t at = 0; at < text.size() && !ids.full();) {
            size_t length = 0;
            uint32_t number = trie.longest(text.substr(at), length);
            if (number == Trie::none) {
                at++;
                continue;
            }
            size_t from = at, to = at + length;
            uint32_t id = table[2 * number], flags = table[2 * number + 1];
            if ((flags & SINGLE) && in_word(text, from, to, words)) {
                at += length;
                continue;
            }
            if (flags & LEFT) from = std::max(white_space_before(text.substr(0, from)), start);
            if (flags & RIGHT) to += white_space_after(text.substr(to));
            if (start < from) plain(text.substr(start, from - start), start);
            ids.add(id);
            start = to;
            // The search goes on behind the match itself, as the library's does.
            at += length;
        }
    }
    if (start < text.size() && !ids.full()) plain(text.substr(start), start);
}

}  // namespace

Error Tokenizer::open_hosted(const std::string &path) {
    if (!HOSTED || !STARTED_BY)
        return fail(BUNDLE, path + " is not compiled, as this program asks for", COPY_AGAIN);
    TokenizerFacts facts;
    if (Error error = STARTED_BY->open_tokenizer(path, facts)) return error;
    before_ = facts.before;
    after_ = facts.after;
    pad_id_ = facts.pad_id;
    size_ = facts.size;
    pair_ = facts.pair;
    hosted_ = true;
    return {};
}

Error Tokenizer::open(const std::string &path) {
    if (path.size() > UNCOMPILED.size() &&
        std::string_view(path).substr(path.size() - UNCOMPILED.size()) == UNCOMPILED)
        return open_hosted(path);
    if (Error error = table_.open(path)) return error;
    Bytes model = table_.section("model"), frame = table_.section("template");
    Bytes added = table_.section("addedids");
    added_ids_ = added.as<uint32_t>();
    if (!normalizer_.open(table_) || !added_.open(table_.section("added"), added.size / 8) ||
        !added_normalized_.open(table_.section("addednrm"), added.size / 8))
        return damaged_table(path);
    bool single = false;
    for (size_t index = 1; index < added.size / 4; index += 2)
        single = single || (added_ids_[index] & SINGLE);
    if (single && !words_.open(table_.section("words"))) return damaged_table(path);
    if (model.size < 20 || frame.size < 12) return damaged_table(path);
    std::string_view kind = model.text().substr(0, 8);
    std::unique_ptr<TextModel> (*open_model)(const Table &) = kind == "wordpiec"sv    ? open_wordpiece
                                                              : kind == "bytebpe\0"sv ? open_bpe
                                                              : kind == "unigram\0"sv ? open_unigram
                                                                                      : nullptr;
    if (!open_model) return fail(BUNDLE, path + " is of a kind that this program does not know", COPY_AGAIN);
    model_ = open_model(table_);
    template_ = frame.as<uint32_t>();
    if (!model_ || uint64_t(template_[0]) + template_[1] > (frame.size / 4 - 3) / 2)
        return damaged_table(path);
    if (Bytes size = table_.section("size"); size.size >= 4) size_ = size.as<uint32_t>()[0];
    before_ = template_[0];
    after_ = template_[1];
    type_ = template_[2];
    pad_id_ = model.as<uint32_t>(8)[2];
    return {};
}

Error Tokenizer::encode(std::string_view text, size_t max_length, Encoding &encoding) const {
    if (HOSTED && hosted_) return STARTED_BY->encode(text, nullptr, max_length, encoding.ids, encoding.types);
    Ids ids;
    ids.limit = max_length > special_tokens() ? max_length - special_tokens() : 0;
    if (ids.limit) encode_raw(text, ids);
    encoding.ids.clear();
    encoding.types.clear();
    auto special = [&](size_t index) {
        encoding.ids.push_back(template_[3 + 2 * index]);
        encoding.types.push_back(template_[4 + 2 * index]);
    };
    for (size_t index = 0; index < before_; index++) special(index);
    encoding.ids.insert(encoding.ids.end(), ids.values.begin(), ids.values.end());
    encoding.types.resize(encoding.ids.size(), type_);
    for (size_t index = 0; index < after_; index++) special(before_ + index);
    // A tokenizer without special tokens makes nothing of an empty text, and a model nothing of no token.
    if (encoding.ids.empty()) {
        encoding.ids.push_back(pad_id_);
        encoding.types.push_back(0);
    }
    return {};
}

void Tokenizer::encode_raw(std::string_view text, Ids &ids) const {
    std::string normal;
    split_at_added(text, added_, added_ids_, words_, ids, [&](std::string_view plain, size_t start) {
        if (!normalizer_) return encode_normalized(plain, start == 0, ids);
        normal.clear();
        normalizer_.normalize(plain, normal);
        encode_normalized(normal, start == 0, ids);
    });
}

void Tokenizer::encode_normalized(std::string_view text, bool first, Ids &ids) const {
    split_at_added(
        text, added_normalized_, added_ids_, words_, ids,
        [&](std::string_view plain, size_t start) { model_->encode(plain, first && start == 0, ids); });
}

}  // namespace embed
