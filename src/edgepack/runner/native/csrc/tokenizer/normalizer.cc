#include "tokenizer/normalizer.h"

#include <algorithm>

#include "base/utf8.h"

namespace embed {

namespace {
constexpr uint32_t LONGEST_FORM = 1024;  // code points of a form; Unicode's own have 18 at most
}

bool Forms::open(Bytes forms, Bytes text) {
    if (!forms_.open(forms) || text.size < 12) return false;
    count_ = text.as<uint32_t>()[0];
    uint64_t points = text.size / 4 - 2;
    // A form is a number of 16 bits.
    if (count_ > 0xFFFF || points < uint64_t(count_) + 1) return false;
    points -= uint64_t(count_) + 1;
    offsets_ = text.as<uint32_t>(8);
    points_ = offsets_ + count_ + 1;
    for (uint32_t form = 0; form < count_; form++)
        if (offsets_[form] > offsets_[form + 1] || offsets_[form + 1] - offsets_[form] > LONGEST_FORM)
            return false;
    return offsets_[count_] <= points && forms_.below(limit());
}

namespace {

// Marks that change places: each code point, and a number that orders them as their canonical combining
// classes do.
class Marks {
public:
    void open(Bytes marks) {
        marks_ = marks.as<uint32_t>();
        count_ = marks.size / 4;
    }

    // 0 for what is no such mark.
    uint32_t order_of(uint32_t point) const {
        if (count_ == 0 || point < marks_[0] >> 8) return 0;
        const uint32_t *found = std::lower_bound(marks_, marks_ + count_, point << 8);
        return found != marks_ + count_ && *found >> 8 == point ? *found & 0xFF : 0;
    }

private:
    const uint32_t *marks_ = nullptr;
    size_t count_ = 0;
};

// Treats each code point by itself, and may bring marks into canonical order.
class ByCodePoint final : public NormalizerStep {
public:
    bool open(const Table &table) override {
        if (!forms_.open(table.section("forms"), table.section("formtext"))) return false;
        marks_.open(table.section("marks"));
        for (uint32_t point = 0; point < 128; point++) {
            uint16_t form = forms_[point];
            ascii_[point] = form == Forms::KEEP    ? uint8_t(point)
                            : form == Forms::SPACE ? uint8_t(' ')
                                                   : uint8_t(other);
            if (form < Forms::FIRST_FORM) continue;
            const uint32_t *begin = forms_.begin(form);
            if (forms_.end(form) == begin + 1 && *begin < 128) ascii_[point] = uint8_t(*begin);
        }
        return true;
    }

    void apply(std::string_view text, std::string &normal) const override {
        Run run{normal, {}};
        for (size_t at = 0; at < text.size();) {
            if (uint8_t byte = uint8_t(text[at]); byte < 0x80 && ascii_[byte] != other) {
                run.settle();
                normal += char(ascii_[byte]);
                at++;
                continue;
            }
            change(next_code_point(text, at), run);
        }
        run.settle();
    }

private:
    struct Mark {
        uint32_t point, order;
    };

    // The text that is being made, and the marks at its end that may still change places.
    struct Run {
        std::string &text;
        std::vector<Mark> marks;

        void settle() {
            if (marks.empty()) return;
            std::stable_sort(marks.begin(), marks.end(), [](Mark a, Mark b) { return a.order < b.order; });
            for (Mark mark : marks) append_code_point(text, mark.point);
            marks.clear();
        }
    };

    void change(uint32_t point, Run &run) const {
        uint16_t form = forms_[point];
        if (form == Forms::KEEP) {
            emit(point, run);
        } else if (form == Forms::DROP_BARRIER) {
            run.settle();
        } else if (form == Forms::ISOLATE || form == Forms::SPACE) {
            run.settle();
            run.text += ' ';
            if (form == Forms::ISOLATE) {
                append_code_point(run.text, point);
                run.text += ' ';
            }
        } else if (form == Forms::HANGUL) {
            uint32_t index = point - 0xAC00;
            emit(0x1100 + index / 588, run);
            emit(0x1161 + index % 588 / 28, run);
            if (index % 28) emit(0x11A7 + index % 28, run);
        } else if (form >= Forms::FIRST_FORM) {
            for (const uint32_t *made = forms_.begin(form); made != forms_.end(form); made++)
                emit(*made, run);
        }
    }

    void emit(uint32_t point, Run &run) const {
        if (uint32_t order = marks_.order_of(point)) {
            run.marks.push_back({point, order});
            return;
        }
        run.settle();
        append_code_point(run.text, point);
    }

    Forms forms_;
    Marks marks_;
    // What becomes of ASCII: a character, or `other` for more or less than that.
    static constexpr uint8_t other = 0xFF;
    uint8_t ascii_[128] = {};
};

// Joins what was decomposed, of NFC and NFKC (The Unicode Standard, 3.11): a starter with what follows it,
// unless something between the two stands in the way.
class Compose final : public NormalizerStep {
public:
    bool open(const Table &table) override {
        Bytes pairs = table.section("compose");
        marks_.open(table.section("marks"));
        pairs_ = pairs.as<Pair>();
        count_ = pairs.size / sizeof(Pair);
        return true;
    }

    void apply(std::string_view text, std::string &normal) const override {
        uint32_t starter = none, last = 0;
        std::vector<uint32_t> between;
        auto settle = [&] {
            if (starter != none) append_code_point(normal, starter);
            for (uint32_t point : between) append_code_point(normal, point);
            between.clear();
        };
        for (size_t at = 0; at < text.size();) {
            uint32_t point = next_code_point(text, at), order = point < 0x80 ? 0 : marks_.order_of(point);
            if (starter != none && point >= 0x80 && (between.empty() || last < order))
                if (uint32_t made = joined(starter, point); made != none) {
                    starter = made;
                    continue;
                }
            last = order;
            if (order) {
                between.push_back(point);
            } else {
                settle();
                starter = point;
            }
        }
        settle();
    }

private:
    struct Pair {
        uint32_t first, second, made;
    };
    static constexpr uint32_t none = ~0u;

    uint32_t joined(uint32_t first, uint32_t second) const {
        uint32_t leading = first - 0x1100, vowel = second - 0x1161, syllable = first - 0xAC00,
                 trailing = second - 0x11A7;
        if (leading < 19 && vowel < 21) return 0xAC00 + (leading * 21 + vowel) * 28;
        if (syllable < 11172 && syllable % 28 == 0 && trailing - 1 < 27) return first + trailing;
        const Pair *end = pairs_ + count_;
        const Pair *found =
            std::lower_bound(pairs_, end, Pair{first, second, 0}, [](const Pair &a, const Pair &b) {
                return a.first != b.first ? a.first < b.first : a.second < b.second;
            });
        return found != end && found->first == first && found->second == second ? found->made : none;
    }

    Marks marks_;
    const Pair *pairs_ = nullptr;
    size_t count_ = 0;
};

// SentencePiece's map of characters, as Hugging Face's tokenizers apply it: to clusters of less than six
// bytes as wholes, of which only the shortest beginning that the map knows is looked at, to all others
// character by character.
class Precompiled final : public NormalizerStep {
public:
    bool open(const Table &table) override {
        return forms_.open(table.section("pcforms"), table.section("pctext")) &&
               clusters_.open(table.section("clusters"), forms_.limit()) &&
               graphemes_.open(table.section("graphem"));
    }

    void apply(std::string_view text, std::string &normal) const override {
        for (size_t at = 0; at < text.size();) {
            // Between two characters of ASCII there is always a border, but in a line's end.
            bool plain = uint8_t(text[at]) < 0x80 && text[at] != '\r' &&
                         (at + 1 == text.size() || uint8_t(text[at + 1]) < 0x80);
            size_t length = plain ? 1 : graphemes_.next(text.substr(at));
            cluster(text.substr(at, length), normal);
            at += length;
        }
    }

private:
    void cluster(std::string_view text, std::string &normal) const {
        size_t first = utf8_length(uint8_t(text[0]));
        if (text.size() < 6 && text.size() > first) {
            size_t at = 0;
            if (uint16_t form = forms_[next_code_point(text, at)]; form != Forms::KEEP)
                return write(form, normal);
            uint32_t node = Trie::root;
            for (at = 0; at < text.size();) {
                if ((node = clusters_.step(node, uint8_t(text[at++]))) == Trie::none) break;
                if (uint32_t form = clusters_.value(node); form != Trie::none) return write(form, normal);
            }
        }
        for (size_t at = 0; at < text.size();) {
            size_t start = at;
            uint16_t form = forms_[next_code_point(text, at)];
            if (form == Forms::KEEP) normal += text.substr(start, at - start);
            else write(form, normal);
        }
    }

    void write(uint32_t form, std::string &normal) const {
        if (form == Forms::SPACE) normal += ' ';
        if (form < Forms::FIRST_FORM) return;
        for (const uint32_t *made = forms_.begin(form); made != forms_.end(form); made++)
            append_code_point(normal, *made);
    }

    Forms forms_;
    Trie clusters_;
    Graphemes graphemes_;
};

// Two spaces and more become a text.
class Squeeze final : public NormalizerStep {
public:
    explicit Squeeze(std::string_view content) : content_(content) {}

    void apply(std::string_view text, std::string &normal) const override {
        for (size_t at = 0; at < text.size();) {
            size_t end = at;
            while (end < text.size() && text[end] == ' ') end++;
            if (end - at >= 2) {
                normal += content_;
                at = end;
            } else {
                normal += text[at++];
            }
        }
    }

private:
    std::string_view content_;
};

// Each space becomes a text.
class Spaces final : public NormalizerStep {
public:
    explicit Spaces(std::string_view content) : content_(content) {}

    void apply(std::string_view text, std::string &normal) const override {
        for (char letter : text) {
            if (letter == ' ') normal += content_;
            else normal += letter;
        }
    }

private:
    std::string_view content_;
};

// A text that is not empty begins with another.
class Prepend final : public NormalizerStep {
public:
    explicit Prepend(std::string_view content) : content_(content) {}

    void apply(std::string_view text, std::string &normal) const override {
        if (!text.empty()) normal += content_;
        normal += text;
    }

private:
    std::string_view content_;
};

// White space goes from the ends.
class Strip final : public NormalizerStep {
public:
    Strip(bool left, bool right) : left_(left), right_(right) {}

    void apply(std::string_view text, std::string &normal) const override {
        size_t begin = 0, end = text.size();
        while (left_ && begin < end) {
            size_t next = begin;
            if (!is_white_space(next_code_point(text, next))) break;
            begin = std::min(next, end);
        }
        while (right_ && end > begin) {
            size_t start = end - 1;
            while (start > begin && (uint8_t(text[start]) & 0xC0) == 0x80) start--;
            size_t at = start;
            if (!is_white_space(next_code_point(text, at))) break;
            end = start;
        }
        normal += text.substr(begin, end - begin);
    }

private:
    bool left_, right_;
};

enum Code : uint32_t {
    BY_CODE_POINT = 1,
    PRECOMPILED,
    SQUEEZE,
    STRIP_LEFT,
    STRIP_RIGHT,
    STRIP_BOTH,
    COMPOSE,
    SPACES,
    PREPEND_TEXT
};

}  // namespace

bool Normalizer::open(const Table &table) {
    Bytes steps = table.section("steps");
    for (size_t index = 0; index < steps.size / 4; index++) {
        uint32_t code = steps.as<uint32_t>()[index];
        if (code == BY_CODE_POINT) steps_.push_back(std::make_unique<ByCodePoint>());
        if (code == PRECOMPILED) steps_.push_back(std::make_unique<Precompiled>());
        if (code == SQUEEZE) steps_.push_back(std::make_unique<Squeeze>(table.section("squeeze").text()));
        if (code == SPACES) steps_.push_back(std::make_unique<Spaces>(table.section("spaces").text()));
        if (code == PREPEND_TEXT) steps_.push_back(std::make_unique<Prepend>(table.section("prepend").text()));
        if (code == COMPOSE) steps_.push_back(std::make_unique<Compose>());
        if (code >= STRIP_LEFT && code <= STRIP_BOTH)
            steps_.push_back(std::make_unique<Strip>(code != STRIP_RIGHT, code != STRIP_LEFT));
    }
    return std::all_of(steps_.begin(), steps_.end(), [&](auto &step) { return step->open(table); });
}

void Normalizer::normalize(std::string_view text, std::string &normal) const {
    std::string before(text);
    for (auto &step : steps_) {
        normal.clear();
        normal.reserve(before.size() + before.size() / 8);
        step->apply(before, normal);
        std::swap(before, normal);
    }
    std::swap(before, normal);
}

}  // namespace embed
