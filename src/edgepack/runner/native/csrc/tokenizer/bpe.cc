// BPE: the pairs of a piece's parts are joined in the order of their ranks. The parts are bytes, of text that
// is split as GPT-2, Qwen or Llama 3 split it, or characters of the whole text, as SentencePiece has it,
// where one that is not known is its bytes.
#include <algorithm>
#include <queue>

#include "tokenizer/tokenizer.h"
#include "base/utf8.h"

namespace embed {

namespace {

enum Sort : uint8_t { IS_OTHER, IS_LETTER, IS_NUMBER, IS_SPACE };
enum Ways : uint32_t {
    PREFIX_SPACE = 1,
    SPLITS = 2,
    IGNORES_MERGES = 4,
    LINES = 8,
    THREE_DIGITS = 16,
    CHARACTERS = 32
};

// A number of three bytes: half a million merges of such are a quarter smaller, and mapped all the same.
struct Three {
    uint8_t bytes[3];
    operator uint32_t() const {
        return uint32_t(bytes[0]) | uint32_t(bytes[1]) << 8 | uint32_t(bytes[2]) << 16;
    }
};

class Bpe final : public TextModel {
public:
    bool open(const Table &table) {
        Bytes bytes = table.section("bytes"), merges = table.section("merges");
        if (!vocabulary_.open(table.section("vocab"), Trie::none) || !kinds_.open(table.section("pieces")))
            return false;
        if (bytes.size < 4 * 256 || merges.size < 8) return false;
        flags_ = table.section("model").as<uint32_t>(8)[0];
        bytes_ = bytes.as<uint32_t>();
        const uint32_t *numbers = merges.as<uint32_t>();
        uint64_t rows = numbers[0], count = numbers[1];
        if (rows + 1 + 3 * count > (merges.size - 8) / sizeof(Three)) return false;
        rows_ = uint32_t(rows);
        first_ = merges.as<Three>(8);
        right_ = first_ + rows + 1;
        rank_ = right_ + count;
        joined_ = rank_ + count;
        return std::is_sorted(first_, right_) && first_[rows] <= count;
    }

    void encode(std::string_view text, bool, Ids &ids) const override {
        std::string prefixed;
        if ((flags_ & PREFIX_SPACE) && text[0] != ' ') {
            prefixed = " " + std::string(text);
            text = prefixed;
        }
        if (!(flags_ & SPLITS)) return piece(text, ids);
        for (size_t at = 0; at < text.size() && !ids.full();) {
            size_t length = flags_ & LINES ? next_of_line(text.substr(at)) : next_piece(text.substr(at));
            piece(text.substr(at, length), ids);
            at += length;
        }
    }

private:
    uint8_t kind_at(std::string_view text, size_t at, size_t &next) const {
        next = at;
        return kinds_[next_code_point(text, next)];
    }

    // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    size_t next_piece(std::string_view text) const {
        for (std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
            if (text.substr(0, ending.size()) == ending) return ending.size();
        size_t start = 0, end = 0, next = 0;
        uint8_t kind = kind_at(text, 0, end);
        if (text[0] == ' ' && text.size() > 1 && kind_at(text, 1, next) != IS_SPACE) {
            start = 1;
            kind = kind_at(text, start, end);
        }
        size_t last = start;
        while (end < text.size() && kind_at(text, end, next) == kind) {
            last = end;
            end = next;
        }
        // The last white space before something else belongs to that, unless it is the only one.
        return kind == IS_SPACE && end < text.size() && last > 0 ? last : end;
    }

    // Behind the run of characters that `fits` says yes to, from `at` on.
    template <class Fits> size_t behind(std::string_view text, size_t at, Fits fits) const {
        size_t next = at;
        while (at < text.size() && fits(kind_at(text, at, next), text[at])) at = next;
        return at;
    }

    static bool ends_line(char letter) { return letter == '\r' || letter == '\n'; }

    // How long one of 's 't 're 've 'm 'll 'd is, in letters of either case; 0 where the text begins with
    // none.
    static size_t ending(std::string_view text) {
        for (std::string_view known : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
            size_t at = 1;
            while (at < known.size() && at < text.size() && (text[at] | 0x20) == known[at]) at++;
            if (text[0] == '\'' && at == known.size()) return at;
        }
        return text.substr(0, 3) == "'\u017F" ? 3 : 0;
    }

    // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|
    // ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ as Qwen has it; Llama 3 takes up to three \p{N}.
    size_t next_of_line(std::string_view text) const {
        if (size_t length = ending(text)) return length;
        auto letters = [](uint8_t kind, char) { return kind == IS_LETTER; };
        auto others = [](uint8_t kind, char) { return kind == IS_OTHER; };
        size_t first = 0, end = 0;
        uint8_t kind = kind_at(text, 0, first);
        if (kind == IS_LETTER) return behind(text, first, letters);
        if (kind == IS_NUMBER) {
            for (int more = flags_ & THREE_DIGITS ? 2 : 0; more > 0 && first < text.size(); more--)
                if (kind_at(text, first, end) == IS_NUMBER) first = end;
            return first;
        }
        if (!ends_line(text[0]) && (end = behind(text, first, letters)) > first) return end;
        if (kind == IS_OTHER || (text[0] == ' ' && behind(text, 1, others) > 1))
            return behind(text, behind(text, first, others),
                          [](uint8_t, char letter) { return ends_line(letter); });
        size_t line = 0, last = 0;
        for (end = 0; end < text.size();) {
            size_t next = end;
            if (kind_at(text, end, next) != IS_SPACE) break;
            if (ends_line(text[end])) line = next;
            last = end;
            end = next;
        }
        if (line) return line;
        return end < text.size() && last > 0 ? last : end;
    }

    struct Symbol {
        uint32_t id;
        int32_t before, after;  // -1: none
        bool gone;
    };
    struct Merge {
        uint32_t rank, position, joined;
        bool operator<(const Merge &other) const {
            return rank != other.rank ? rank > other.rank : position > other.position;
        }
    };

    // Where the merge of two ids is; `none` when they have none.
    static constexpr uint32_t none = ~0u;
    uint32_t find(uint32_t left, uint32_t right) const {
        if (left >= rows_) return none;
        const Three *begin = right_ + first_[left], *end = right_ + first_[left + 1];
        const Three *found = std::lower_bound(begin, end, right);
        return found != end && *found == right ? uint32_t(found - right_) : none;
    }

    void piece(std::string_view text, Ids &ids) const {
        if (flags_ & IGNORES_MERGES)
            if (uint32_t id = vocabulary_.find(text); id != Trie::none) return ids.add(id);
        std::vector<Symbol> symbols;
        auto begin = [&](uint32_t id) {
            int32_t at = int32_t(symbols.size());
            symbols.push_back({id, at - 1, at + 1, false});
        };
        for (size_t at = 0, size = 1; at < text.size(); at += size) {
            uint32_t id = Trie::none;
            if (flags_ & CHARACTERS) {
                size = utf8_length(uint8_t(text[at]));
                id = vocabulary_.find(text.substr(at, size));
            }
            if (id != Trie::none) begin(id);
            else
                for (char letter : text.substr(at, size)) begin(bytes_[uint8_t(letter)]);
        }
        symbols.back().after = -1;
        std::priority_queue<Merge> queue;
        auto offer = [&](int32_t left, int32_t right) {
            uint32_t at = find(symbols[size_t(left)].id, symbols[size_t(right)].id);
            if (at != none) queue.push({rank_[at], uint32_t(left), joined_[at]});
        };
        for (size_t at = 0; at + 1 < symbols.size(); at++) offer(int32_t(at), int32_t(at + 1));
        while (!queue.empty()) {
            Merge top = queue.top();
            queue.pop();
            Symbol &left = symbols[top.position];
            if (left.gone || left.after < 0) continue;
            Symbol &right = symbols[size_t(left.after)];
            // A pair that has been joined otherwise since.
            uint32_t at = find(left.id, right.id);
            if (at == none || joined_[at] != top.joined) continue;
            left.id = top.joined;
            right.gone = true;
            left.after = right.after;
            if (left.after >= 0) symbols[size_t(left.after)].before = int32_t(top.position);
            if (left.before >= 0) offer(left.before, int32_t(top.position));
            if (left.after >= 0) offer(int32_t(top.position), left.after);
        }
        for (const Symbol &symbol : symbols)
            if (!symbol.gone) ids.add(symbol.id);
    }

    Trie vocabulary_;
    CodePointTable<uint8_t> kinds_;
    uint32_t flags_ = 0, rows_ = 0;
    const uint32_t *bytes_ = nullptr;
    const Three *first_ = nullptr, *right_ = nullptr, *rank_ = nullptr, *joined_ = nullptr;
};

}  // namespace

std::unique_ptr<TextModel> open_bpe(const Table &table) { return open_model<Bpe>(table); }

}  // namespace embed
