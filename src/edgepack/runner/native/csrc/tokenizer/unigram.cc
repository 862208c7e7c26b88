// Unigram: of all ways to put a text together from the vocabulary the likeliest (Viterbi), in double
// precision and in the order in which Hugging Face's tokenizers adds up, so that ties fall alike.
#include <algorithm>
#include <cstring>

#include "tokenizer/tokenizer.h"
#include "base/utf8.h"

namespace embed {

namespace {

constexpr uint32_t LONGEST_TOKEN = 1 << 16;  // bytes of a token

enum Split : uint32_t {
    AT_SPACES = 1,
    META = 2,
    META_SPLITS = 4,
    PREPEND = 8,
    PREPEND_FIRST = 16,
    DOUBLES = 32
};

class Unigram final : public TextModel {
public:
    bool open(const Table &table) {
        Bytes model = table.section("model");
        if (model.size < 32) return false;
        const uint32_t *settings = model.as<uint32_t>(8);
        split_ = settings[0];
        unknown_ = settings[1];
        longest_ = settings[3];
        memcpy(&unknown_score_, settings + 4, sizeof unknown_score_);
        meta_ = table.section("meta").text();
        Bytes scores = table.section("scores");
        if (split_ & DOUBLES) doubles_ = scores.as<double>();
        else floats_ = scores.as<float>();
        size_t width = doubles_ ? sizeof *doubles_ : sizeof *floats_;
        return longest_ <= LONGEST_TOKEN && vocabulary_.open(table.section("vocab"), scores.size / width);
    }

    void encode(std::string_view text, bool first, Ids &ids) const override {
        if (!(split_ & AT_SPACES)) return meta(text, first, ids);
        size_t start = 0;
        for (size_t at = 0; at < text.size() && !ids.full();) {
            size_t here = at;
            if (!is_white_space(next_code_point(text, at))) continue;
            if (here > start) meta(text.substr(start, here - start), first, ids);
            start = at;
        }
        if (start < text.size()) meta(text.substr(start), first, ids);
    }

private:
    // Metaspace: a mark for each space, and one before the text.
    void meta(std::string_view text, bool first, Ids &ids) const {
        if (!(split_ & META)) return piece(text, ids);
        std::string marked;
        bool has_mark = text[0] == ' ' || text.substr(0, meta_.size()) == meta_;
        if (!has_mark && ((split_ & PREPEND) || ((split_ & PREPEND_FIRST) && first))) marked += meta_;
        for (char letter : text) {
            if (letter == ' ') marked += meta_;
            else marked += letter;
        }
        if (!(split_ & META_SPLITS)) return piece(marked, ids);
        // A piece begins at each mark.
        size_t start = 0;
        for (size_t at = 1; at <= marked.size() && !ids.full(); at++) {
            if (at < marked.size() && marked.compare(at, meta_.size(), meta_) != 0) continue;
            piece(std::string_view(marked).substr(start, at - start), ids);
            start = at;
        }
    }

    double score(uint32_t id) const { return floats_ ? double(floats_[id]) : doubles_[id]; }

    struct Step {
        uint32_t id;
        uint32_t length;  // 0: not reached
    };

    void piece(std::string_view text, Ids &ids) const {
        if (text.empty()) return;
        std::vector<Step> steps(text.size() + 1, Step{0, 0});
        // Scores are needed only as far ahead as a token reaches.
        size_t window = 8;
        while (window <= longest_ + 4) window *= 2;
        std::vector<double> scores(window, 0.0);
        auto offer = [&](size_t start, uint32_t length, uint32_t id, double candidate) {
            Step &step = steps[start + length];
            double &best = scores[(start + length) & (window - 1)];
            if (step.length && !(candidate > best)) return;
            step = {id, length};
            best = candidate;
        };
        for (size_t start = 0; start < text.size();) {
            double so_far = scores[start & (window - 1)];
            // An added token may end within a character.
            size_t length = std::min(utf8_length(uint8_t(text[start])), text.size() - start);
            bool whole = false;
            uint32_t node = Trie::root;
            for (size_t at = start; at < text.size();) {
                if ((node = vocabulary_.step(node, uint8_t(text[at++]))) == Trie::none) break;
                uint32_t id = vocabulary_.value(node);
                if (id == Trie::none) continue;
                offer(start, uint32_t(at - start), id, score(id) + so_far);
                whole |= at - start == length;
            }
            if (!whole) offer(start, uint32_t(length), unknown_, unknown_score_ + so_far);
            start += length;
        }
        std::vector<uint32_t> backwards;
        bool fused = false;
        for (size_t end = text.size(); end > 0; end -= steps[end].length) {
            uint32_t id = steps[end].id;
            // What is unknown and stands together is one token.
            if (id != unknown_ || !fused) backwards.push_back(id);
            fused = id == unknown_;
        }
        for (auto id = backwards.rbegin(); id != backwards.rend(); ++id) ids.add(*id);
    }

    Trie vocabulary_;
    std::string_view meta_;
    const float *floats_ = nullptr;
    const double *doubles_ = nullptr;
    double unknown_score_ = 0;
    uint32_t split_ = 0, unknown_ = 0, longest_ = 0;
};

}  // namespace

std::unique_ptr<TextModel> open_unigram(const Table &table) { return open_model<Unigram>(table); }

}  // namespace embed
