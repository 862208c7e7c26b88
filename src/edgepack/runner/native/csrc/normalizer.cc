#include "normalizer.h"

#include <algorithm>

#include "utf8.h"

namespace embed {

namespace {
// What charmap.py calls the same.
enum Form : uint16_t { KEEP, DROP, DROP_BARRIER, ISOLATE, SPACE, HANGUL, FIRST_FORM = 8 };
}  // namespace

// The text that is being made, and the marks at its end that may still change places.
struct Normalizer::Run {
    std::string &text;
    std::vector<Mark> marks;

    void settle() {
        if (marks.empty()) return;
        std::stable_sort(marks.begin(), marks.end(), [](Mark a, Mark b) { return a.order < b.order; });
        for (Mark mark : marks) append_code_point(text, mark.point);
        marks.clear();
    }
};

void Normalizer::open(const Table &table) {
    forms_.open(table.section("forms"));
    if (!forms_) return;
    Bytes text = table.section("formtext"), marks = table.section("marks");
    offsets_ = text.as<uint32_t>(8);
    points_ = offsets_ + text.as<uint32_t>()[0] + 1;
    marks_ = marks.as<uint32_t>();
    mark_count_ = marks.size / 4;
    for (uint32_t point = 0; point < 128; point++) {
        uint16_t form = forms_[point];
        ascii_[point] = form == KEEP ? uint8_t(point) : form == SPACE ? uint8_t(' ') : uint8_t(other);
        if (form < FIRST_FORM) continue;
        uint32_t begin = offsets_[form - FIRST_FORM], end = offsets_[form - FIRST_FORM + 1];
        if (end == begin + 1 && points_[begin] < 128) ascii_[point] = uint8_t(points_[begin]);
    }
}

uint32_t Normalizer::order_of(uint32_t point) const {
    if (mark_count_ == 0 || point < marks_[0] >> 8) return 0;
    const uint32_t *found = std::lower_bound(marks_, marks_ + mark_count_, point << 8);
    return found != marks_ + mark_count_ && *found >> 8 == point ? *found & 0xFF : 0;
}

void Normalizer::emit(uint32_t point, Run &run) const {
    if (uint32_t order = order_of(point)) {
        run.marks.push_back({point, order});
        return;
    }
    run.settle();
    append_code_point(run.text, point);
}

void Normalizer::normalize(std::string_view text, std::string &normal) const {
    normal.reserve(normal.size() + text.size() + text.size() / 8);
    Run run{normal, {}};
    for (size_t at = 0; at < text.size();) {
        if (uint8_t byte = uint8_t(text[at]); byte < 0x80 && ascii_[byte] != other) {
            run.settle();
            normal += char(ascii_[byte]);
            at++;
            continue;
        }
        uint32_t point = next_code_point(text, at);
        uint16_t form = forms_[point];
        if (form == KEEP) {
            emit(point, run);
        } else if (form == DROP_BARRIER) {
            run.settle();
        } else if (form == ISOLATE || form == SPACE) {
            run.settle();
            normal += ' ';
            if (form == ISOLATE) {
                append_code_point(normal, point);
                normal += ' ';
            }
        } else if (form == HANGUL) {
            uint32_t index = point - 0xAC00;
            emit(0x1100 + index / 588, run);
            emit(0x1161 + index % 588 / 28, run);
            if (index % 28) emit(0x11A7 + index % 28, run);
        } else if (form >= FIRST_FORM) {
            uint32_t begin = offsets_[form - FIRST_FORM], end = offsets_[form - FIRST_FORM + 1];
            for (uint32_t place = begin; place < end; place++) emit(points_[place], run);
        }
    }
    run.settle();
}

}  // namespace embed
