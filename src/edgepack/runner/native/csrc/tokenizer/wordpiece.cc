// WordPiece: the longest piece of the vocabulary that a word begins with, and again for what is left of the
// word.
#include <cstring>

#include "tokenizer/tokenizer.h"
#include "base/utf8.h"

namespace embed {

namespace {

enum Kind : uint8_t { LETTER, SEPARATOR, ALONE };

class Wordpiece final : public TextModel {
public:
    bool open(const Table &table) {
        if (!vocabulary_.open(table.section("vocab"), Trie::none) || !kinds_.open(table.section("pieces")))
            return false;
        const uint32_t *settings = table.section("model").as<uint32_t>(8);
        unknown_ = settings[0];
        longest_word_ = settings[1];
        continuation_ = Trie::root;
        for (char letter : table.section("prefix").text())
            if (continuation_ != Trie::none) continuation_ = vocabulary_.step(continuation_, uint8_t(letter));
        return true;
    }

    void encode(std::string_view text, bool, Ids &ids) const override {
        size_t start = 0, letters = 0;
        for (size_t at = 0; at < text.size() && !ids.full();) {
            size_t here = at;
            uint8_t kind = kinds_[next_code_point(text, at)];
            if (kind == LETTER) {
                letters++;
                continue;
            }
            if (letters) word(text.substr(start, here - start), letters, ids);
            if (kind == ALONE) word(text.substr(here, at - here), 1, ids);
            start = at;
            letters = 0;
        }
        if (letters) word(text.substr(start), letters, ids);
    }

private:
    void word(std::string_view word, size_t letters, Ids &ids) const {
        if (letters > longest_word_) return ids.add(unknown_);
        size_t known = ids.values.size();
        for (size_t start = 0; start < word.size();) {
            uint32_t node = start ? continuation_ : uint32_t(Trie::root), found = Trie::none;
            size_t end = start;
            for (size_t at = start; node != Trie::none && at < word.size();) {
                node = vocabulary_.step(node, uint8_t(word[at++]));
                if (node == Trie::none) break;
                if (uint32_t id = vocabulary_.value(node); id != Trie::none) {
                    found = id;
                    end = at;
                }
            }
            if (found == Trie::none) {
                // One part that is not known makes the whole word unknown.
                ids.values.resize(known);
                return ids.add(unknown_);
            }
            // Not `add`: whether the word is known shows only at its end.
            ids.values.push_back(found);
            start = end;
        }
        if (ids.full()) ids.values.resize(ids.limit);
    }

    Trie vocabulary_;
    CodePointTable<uint8_t> kinds_;
    uint32_t unknown_ = 0, longest_word_ = 0, continuation_ = 0;
};

}  // namespace

std::unique_ptr<TextModel> open_wordpiece(const Table &table) { return open_model<Wordpiece>(table); }

}  // namespace embed
