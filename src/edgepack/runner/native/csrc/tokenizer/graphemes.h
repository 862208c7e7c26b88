// Where characters as readers see them end (Unicode Standard Annex 29, extended grapheme clusters).
#pragma once
#include <string_view>

#include "tokenizer/table.h"

namespace embed {

class Graphemes {
public:
    bool open(Bytes bytes) { return kinds_.open(bytes); }
    // The length in bytes of the cluster at the front of a text that is not empty.
    size_t next(std::string_view text) const;

private:
    CodePointTable<uint8_t> kinds_;
};

}  // namespace embed
