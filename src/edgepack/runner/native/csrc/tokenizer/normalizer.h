// Normalizers: steps that are worked through one after the other.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/graphemes.h"
#include "tokenizer/table.h"

namespace embed {

class NormalizerStep {
public:
    virtual ~NormalizerStep() = default;
    // Reads what it needs of the table; false where that is not sound.
    virtual bool open(const Table &) { return true; }
    virtual void apply(std::string_view text, std::string &normal) const = 0;
};

class Normalizer {
public:
    // Reads the steps that the table lists in its section `steps`; false where one of them is not sound.
    bool open(const Table &table);
    // Whether there is anything to do at all.
    explicit operator bool() const { return !steps_.empty(); }
    void normalize(std::string_view text, std::string &normal) const;

private:
    std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

// What becomes of code points: a form for each that changes.
class Forms {
public:
    // What code_point_tables.py calls the same.
    enum Form : uint16_t { KEEP, DROP, DROP_BARRIER, ISOLATE, SPACE, HANGUL, FIRST_FORM = 8 };

    bool open(Bytes forms, Bytes text);
    // What is greater than every form.
    uint32_t limit() const { return FIRST_FORM + count_; }
    uint16_t operator[](uint32_t point) const { return forms_[point]; }
    // The code points of a form from FIRST_FORM on.
    const uint32_t *begin(uint32_t form) const { return points_ + offsets_[form - FIRST_FORM]; }
    const uint32_t *end(uint32_t form) const { return points_ + offsets_[form - FIRST_FORM + 1]; }

private:
    CodePointTable<uint16_t> forms_;
    uint32_t count_ = 0;
    const uint32_t *offsets_ = nullptr, *points_ = nullptr;
};

}  // namespace embed
