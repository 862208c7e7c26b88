#include "tokenizer/graphemes.h"

#include "base/utf8.h"

namespace embed {

namespace {

// graphemes.py calls them the same.
enum Cluster : uint8_t {
    ANY,
    CR,
    LF,
    CONTROL,
    EXTEND,
    LINKER,
    PLAIN,
    JOINER,
    REGION,
    PREPEND_MARK,
    SPACING,
    HANGUL_L,
    HANGUL_V,
    HANGUL_T,
    HANGUL_LV,
    HANGUL_LVT,
    PICTURE,
    CONSONANT
};

bool is_control(uint8_t kind) { return kind == CR || kind == LF || kind == CONTROL; }
bool extends(uint8_t kind) { return kind == EXTEND || kind == LINKER || kind == PLAIN || kind == JOINER; }

// What the rules remember of the cluster so far.
struct Past {
    uint8_t kind;
    bool picture, consonant, linked;
    size_t regions;
};

bool joins(const Past &past, uint8_t kind) {
    if (past.kind == CR) return kind == LF;                       // GB3, GB4
    if (is_control(past.kind) || is_control(kind)) return false;  // GB4, GB5
    if (past.kind == HANGUL_L &&
        (kind == HANGUL_L || kind == HANGUL_V || kind == HANGUL_LV || kind == HANGUL_LVT))
        return true;
    if ((past.kind == HANGUL_LV || past.kind == HANGUL_V) && (kind == HANGUL_V || kind == HANGUL_T))
        return true;
    if ((past.kind == HANGUL_LVT || past.kind == HANGUL_T) && kind == HANGUL_T) return true;
    if (extends(kind) || kind == SPACING || past.kind == PREPEND_MARK) return true;  // GB9, 9a, 9b
    if (past.consonant && past.linked && kind == CONSONANT) return true;             // GB9c
    if (past.picture && past.kind == JOINER && kind == PICTURE) return true;         // GB11
    return past.kind == REGION && kind == REGION && past.regions % 2 == 1;           // GB12, GB13
}

}  // namespace

size_t Graphemes::next(std::string_view text) const {
    size_t end = 0;
    Past past{kinds_[next_code_point(text, end)], false, false, false, 0};
    past.picture = past.kind == PICTURE;
    past.consonant = past.kind == CONSONANT;
    past.regions = past.kind == REGION;
    while (end < text.size()) {
        size_t after = end;
        uint8_t kind = kinds_[next_code_point(text, after)];
        if (!joins(past, kind)) break;
        past.picture = kind == PICTURE || (past.picture && extends(kind) && past.kind != JOINER);
        if (kind == CONSONANT) past.consonant = true, past.linked = false;
        else if (kind == LINKER) past.linked = past.consonant;
        else if (kind != EXTEND && kind != JOINER) past.consonant = past.linked = false;
        past.regions = kind == REGION ? past.regions + 1 : 0;
        past.kind = kind;
        end = after;
    }
    return end;
}

}  // namespace embed
