#include "sound.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "each.h"
#include "kernels.h"

namespace embed {

namespace {

constexpr uint32_t MOST_STEPS = 1 << 16, MOST_WIDTH = 1 << 20;
constexpr uint32_t MOST_DEPTH = 1 << 17;  // of a product, whose sums stay below 2^31
constexpr size_t MOST_BYTES = 1 << 22;    // of a token's buffers

bool lies_in(const PlanView &plan, uint64_t place, uint64_t size) {
    return place % ALIGNMENT == 0 && place <= plan.size && size <= plan.size - place;
}

// A step, and what rules ask of it.
struct Asked {
    const PlanView &plan;
    const Step &step;
    const uint32_t *sizes;

    uint64_t size(int index) const { return sizes[index]; }
    const Buffer &buffer(uint32_t index) const { return plan.buffers[index]; }
    bool is(uint32_t index) const { return index < plan.header.buffers; }
    bool has(uint32_t index, uint32_t width, uint32_t bytes) const {
        return is(index) && buffer(index).width == width && buffer(index).bytes == bytes;
    }
    bool may_have(uint32_t index, uint32_t width, uint32_t bytes) const {
        return index == NOTHING || has(index, width, bytes);
    }
    // At least so many floats.
    bool holds(uint32_t index, uint64_t width) const {
        return is(index) && buffer(index).bytes == 4 && width <= buffer(index).width;
    }
    bool given(int tensor, uint64_t size) const {
        return step.tensors[tensor] && lies_in(plan, step.tensors[tensor], size);
    }
    bool may(int tensor, uint64_t size) const { return !step.tensors[tensor] || lies_in(plan, step.tensors[tensor], size); }
    bool sums_within(int tensor, uint32_t count, int32_t most) const {
        auto sums = reinterpret_cast<const int32_t *>(plan.file + step.tensors[tensor]);
        return std::all_of(sums, sums + count, [&](int32_t sum) { return -most <= sum && sum <= most; });
    }
};

struct Rule {
    const char *name;
    uint32_t operations;  // that it is of, a bit each
    bool (*holds)(const Asked &);
};

template <class... Operations> constexpr uint32_t of(Operations... operations) { return ((1u << operations) | ...); }

// In this order: a rule may rely on those before it.
const Rule RULES[] = {
    {"rows are looked up by what is known", of(LOOKUP), [](const Asked &a) { return a.step.from[0] <= OF_COUNTED; }},
    {"a table has rows", of(LOOKUP), [](const Asked &a) { return a.sizes[1] > 0; }},
    {"rows are as wide as their buffer", of(LOOKUP), [](const Asked &a) { return a.has(a.step.to[0], a.sizes[0], 4); }},
    {"a table lies in the file", of(LOOKUP),
     [](const Asked &a) {
         const uint64_t bytes = a.step.tensors[1] ? 1 : 4;
         return a.may(1, 4 * a.size(1)) && a.given(0, bytes * a.size(0) * a.size(1));
     }},
    {"a norm's buffers are as wide as it is", of(NORM),
     [](const Asked &a) {
         const uint32_t *from = a.step.from, *to = a.step.to, width = a.sizes[0];
         return a.has(from[0], width, 4) && a.may_have(from[1], width, 4) && a.has(to[0], width, 4) &&
                a.may_have(to[1], width, 1) && a.may_have(to[2], width, 4);
     }},
    {"a norm counts numbers of its rows", of(NORM, NORM_HEADS),
     [](const Asked &a) {
         const int counted = a.step.operation == NORM ? 1 : 3;
         return a.sizes[counted] && a.sizes[counted] <= a.sizes[a.step.operation == NORM ? 0 : 2];
     }},
    {"a norm's weights lie in the file", of(NORM),
     [](const Asked &a) {
         const uint64_t wide = 4 * a.size(0);
         return a.may(0, wide) && a.given(1, wide) && a.may(2, wide) && a.may(3, wide);
     }},
    {"what is quantized is whole panels", of(QUANTIZE), [](const Asked &a) { return a.sizes[0] % PANEL == 0; }},
    {"bytes are as wide as their buffer", of(QUANTIZE),
     [](const Asked &a) { return a.holds(a.step.from[0], a.size(0) + a.size(1)) && a.has(a.step.to[0], a.sizes[0], 1); }},
    {"what smooths lies in the file", of(QUANTIZE), [](const Asked &a) { return a.may(0, 4 * a.size(0)); }},
    {"a product's buffers are as wide as its matrix", of(PRODUCT),
     [](const Asked &a) { return a.has(a.step.from[0], a.sizes[0], 1) && a.holds(a.step.to[0], a.size(1) + a.size(4)); }},
    {"a matrix has whole columns, and is not too deep", of(PRODUCT),
     [](const Asked &a) { return a.sizes[1] % COLUMNS == 0 && a.sizes[0] <= MOST_DEPTH; }},
    {"a product's activation is known", of(PRODUCT), [](const Asked &a) { return a.sizes[2] <= GELU_TANH; }},
    {"a byte stands for zero", of(PRODUCT), [](const Asked &a) { return a.sizes[3] <= 255; }},
    {"a matrix lies in the file", of(PRODUCT),
     [](const Asked &a) {
         const uint64_t columns = 4 * a.size(1);
         return a.given(0, a.size(0) * a.size(1)) && a.given(1, columns) && a.given(2, columns) && a.given(3, columns);
     }},
    {"the sums of a matrix are sums of bytes", of(PRODUCT),
     [](const Asked &a) { return a.sums_within(1, a.sizes[1], 128 * int32_t(a.sizes[0])); }},
    {"heads share keys evenly", of(ATTENTION),
     [](const Asked &a) { return a.sizes[0] && a.sizes[1] && a.sizes[0] % a.sizes[1] == 0; }},
    {"heads are whole panels, and not too large", of(ATTENTION, ROTATE, NORM_HEADS),
     [](const Asked &a) { return a.sizes[2] && a.sizes[2] % PANEL == 0 && a.sizes[2] <= MOST_SIZE; }},
    {"queries, keys and values lie in the buffer", of(ATTENTION),
     [](const Asked &a) {
         const uint64_t heads = a.size(0) * a.size(2), groups = a.size(1) * a.size(2);
         return heads <= MOST_WIDTH && a.holds(a.step.from[0], heads) && a.holds(a.step.from[0], a.size(3) + groups) &&
                a.holds(a.step.from[0], a.size(4) + groups);
     }},
    {"distances reach as far as the longest text", of(ATTENTION),
     [](const Asked &a) {
         return a.may(0, 4 * a.size(0) * a.size(6)) &&
                (!(a.step.tensors[0] || a.step.tensors[1]) || (a.sizes[6] % 2 && a.sizes[6] / 2 + 1 >= a.plan.header.longest));
     }},
    {"kinds of distances are those that queries and keys have numbers for", of(ATTENTION),
     [](const Asked &a) {
         if (!a.step.tensors[1]) return true;
         auto kept = [&](uint32_t buffer) {
             return buffer == NOTHING || (a.holds(buffer, a.size(0) * a.size(7)) && a.buffer(buffer).kept);
         };
         const uint32_t one = a.step.from[1], other = a.step.from[2];
         if (!a.sizes[7] || !kept(one) || !kept(other)) return false;
         if (one != NOTHING && other != NOTHING && a.buffer(one).width != a.buffer(other).width) return false;
         if (!a.given(1, 4 * a.size(6))) return false;
         auto kinds = reinterpret_cast<const uint32_t *>(a.plan.file + a.step.tensors[1]);
         return std::all_of(kinds, kinds + a.sizes[6], [&](uint32_t kind) { return kind < a.sizes[7]; });
     }},
    {"what attention reads and makes is kept", of(ATTENTION),
     [](const Asked &a) {
         return a.buffer(a.step.from[0]).kept && a.holds(a.step.to[0], a.size(0) * a.size(2)) &&
                a.buffer(a.step.to[0]).kept;
     }},
    {"a gate has two halves", of(GATE),
     [](const Asked &a) {
         return a.sizes[0] <= MOST_WIDTH && a.has(a.step.from[0], 2 * a.sizes[0], 4) && a.has(a.step.to[0], a.sizes[0], 4);
     }},
    {"a gate's activation is known", of(GATE), [](const Asked &a) { return a.sizes[1] && a.sizes[1] <= SILU; }},
    {"heads lie in the buffer", of(ROTATE, NORM_HEADS),
     [](const Asked &a) { return a.holds(a.step.to[0], a.size(0) + a.size(1) * a.size(2)); }},
    {"frequencies lie in the file", of(ROTATE), [](const Asked &a) { return a.given(0, 2 * a.size(2)); }},
    {"a head's weights lie in the file", of(NORM_HEADS), [](const Asked &a) { return a.given(0, 4 * a.size(2)); }},
    {"a pooling is known", of(POOL), [](const Asked &a) { return a.sizes[0] <= SUM; }},
    {"what is pooled lies in its buffers", of(POOL),
     [](const Asked &a) {
         return a.size(1) && a.holds(a.step.from[0], a.size(1)) && a.holds(a.step.to[0], a.size(1) + a.size(2)) &&
                !a.buffer(a.step.to[0]).kept;
     }},
    {"rows at length 1 are as wide as their buffers", of(UNIT),
     [](const Asked &a) { return a.has(a.step.from[0], a.sizes[0], 4) && a.has(a.step.to[0], a.sizes[0], 4); }},
    {"what is given lies in its buffer, and among what a token gives", of(GIVE),
     [](const Asked &a) { return a.holds(a.step.from[0], a.size(0)) && a.size(0) + a.size(1) <= a.plan.header.given; }},
    {"numbers and what is made of them lie in buffers alike", of(ALTER, COMBINE, SHARES),
     [](const Asked &a) {
         const uint32_t *from = a.step.from;
         return a.size(0) && a.holds(from[0], a.size(0)) && a.has(a.step.to[0], a.buffer(from[0]).width, 4) &&
                (a.step.operation != COMBINE || a.has(from[1], a.buffer(from[0]).width, 4));
     }},
    {"what is done to numbers is known", of(ALTER, COMBINE),
     [](const Asked &a) { return a.sizes[1] <= (a.step.operation == ALTER ? LOG : TIMES); }},
};

const char *broken_by(const PlanView &plan, const Step &step) {
    if (step.operation < LOOKUP || step.operation > LAST_OPERATION) return "operations are known";
    const Asked asked{plan, step, step.sizes};
    for (const Rule &rule : RULES)
        if (rule.operations >> step.operation & 1 && !rule.holds(asked)) return rule.name;
    return nullptr;
}

bool is_pooled_behind_attention(const PlanView &plan) {
    size_t pooled = 0;
    for (size_t at = 0; at < plan.header.steps; at++) {
        const Step &step = plan.steps[at];
        const bool behind = at >= plan.header.pooled;
        if (behind ? step.operation == ATTENTION || step.operation == GIVE : step.operation == POOL) return false;
        pooled += step.operation == POOL;
    }
    return pooled;
}

// How far a step reads each of its sources, in numbers from a row's start; 0: not at all.
uint32_t read_to(const Step &step, int source) {
    const uint32_t *sizes = step.sizes;
    switch (step.operation) {
        case LOOKUP: return 0;
        case QUANTIZE: return source ? 0 : sizes[0] + sizes[1];
        case ATTENTION:
            if (source) return step.tensors[1] ? sizes[0] * sizes[7] : 0;
            return std::max(sizes[0] * sizes[2], std::max(sizes[3], sizes[4]) + sizes[1] * sizes[2]);
        case GATE: return source ? 0 : 2 * sizes[0];
        case POOL: return source ? 0 : sizes[1];
        case NORM:
        case COMBINE: return source < 2 ? sizes[0] : 0;
        case ROTATE:
        case NORM_HEADS: return 0;  // what they change is where they write
        default: return source ? 0 : sizes[0];
    }
}

// Of a buffer that is not kept, since the last attention.
bool all_was_written(const PlanView &plan) {
    std::vector<uint32_t> begun(plan.header.buffers), written(begun);
    uint32_t stretch = 1;
    auto known = [&](uint32_t buffer, uint32_t end) {
        return end <= written[buffer] && (plan.buffers[buffer].kept || begun[buffer] == stretch);
    };
    // From the start on: what is written behind a gap counts for nothing.
    auto write = [&](uint32_t buffer, uint32_t start, uint32_t end) {
        if (begun[buffer] != stretch && !plan.buffers[buffer].kept) written[buffer] = 0;
        begun[buffer] = stretch;
        if (start <= written[buffer]) written[buffer] = std::max(written[buffer], end);
    };
    for (size_t at = 0; at < plan.header.steps; at++) {
        const Step &step = plan.steps[at];
        const uint32_t *sizes = step.sizes, *to = step.to;
        stretch += at == plan.header.pooled;
        for (int source = 0; source < 3; source++)
            if (const uint32_t end = read_to(step, source); end && step.from[source] != NOTHING && !known(step.from[source], end))
                return false;
        switch (step.operation) {
            case LOOKUP:
                if (step.flags & ACCUMULATED && !known(to[0], sizes[0])) return false;
                write(to[0], 0, sizes[0]);
                break;
            case ROTATE:
            case NORM_HEADS:
                if (!known(to[0], sizes[0] + sizes[1] * sizes[2])) return false;
                break;
            case PRODUCT: write(to[0], sizes[4], sizes[4] + sizes[1]); break;
            case ATTENTION: write(to[0], 0, sizes[0] * sizes[2]); break;
            case POOL: write(to[0], sizes[2], plan.buffers[to[0]].width); break;  // zeros behind what is pooled
            case GIVE: break;
            default:
                for (int each = 0; each < (step.operation == NORM ? 3 : 1); each++)
                    if (to[each] != NOTHING) write(to[each], 0, plan.buffers[to[each]].width);
        }
        stretch += step.operation == ATTENTION;
    }
    return known(plan.header.vector, plan.header.dimension);
}

bool read_header(PlanView &plan) {
    if (plan.size < sizeof plan.header) return false;
    memcpy(&plan.header, plan.file, sizeof plan.header);
    const Header &header = plan.header;
    if (memcmp(header.magic, "EDGEPLN2", 8) || header.size != plan.size || header.given > MOST_WIDTH) return false;
    if (!header.buffers || header.buffers > MOST_STEPS || header.steps > MOST_STEPS) return false;
    if (header.vector >= header.buffers || !lies_in(plan, header.buffers_at, header.buffers * sizeof(Buffer)) ||
        !lies_in(plan, header.steps_at, header.steps * sizeof(Step)))
        return false;
    plan.buffers = reinterpret_cast<const Buffer *>(plan.file + header.buffers_at);
    plan.steps = reinterpret_cast<const Step *>(plan.file + header.steps_at);
    return true;
}

bool buffers_fit(const PlanView &plan) {
    size_t bytes = 0;
    for (size_t at = 0; at < plan.header.buffers; at++) {
        const Buffer &buffer = plan.buffers[at];
        if (buffer.width % PANEL || !buffer.width || buffer.width > MOST_WIDTH) return false;
        if (buffer.bytes != 1 && buffer.bytes != 4) return false;
        if ((bytes += size_t(buffer.width) * buffer.bytes) > MOST_BYTES) return false;
    }
    return true;
}

}  // namespace

const char *broken_rule(PlanView &plan) {
    if (!read_header(plan)) return "the header is that of a plan of this length";
    if (!buffers_fit(plan)) return "buffers are whole panels, and not too many bytes";
    for (size_t at = 0; at < plan.header.steps; at++)
        if (const char *name = broken_by(plan, plan.steps[at])) return name;
    if (!is_pooled_behind_attention(plan)) return "texts are pooled when all of their tokens are there";
    const Header &header = plan.header;
    const Buffer &vector = plan.buffers[header.vector];
    if (header.dimension > vector.width || !header.dimension || vector.bytes != 4 || vector.kept)
        return "the vector is a buffer of a text's floats";
    return all_was_written(plan) ? nullptr : "what is read was written";
}

}  // namespace embed
