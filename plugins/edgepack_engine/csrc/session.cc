#include "session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/threads.h"
#include "each.h"
#include "sound.h"
#include "unfused.h"

namespace embed {

namespace {

constexpr size_t TOGETHER = 96;           // rows that are computed together: what they need stays in the processor's second cache
constexpr size_t SHARED = 64;             // tokens that a thread of its own is worth
constexpr float SMALLEST_NORM = 1e-12f;   // as torch.nn.functional.normalize
constexpr size_t AT_ONCE = 4096;           // bytes of a word's row

// Both as fdlibm has them (https://www.netlib.org/fdlibm), in 64 bits: those of C libraries differ in the last bit.
struct Turn {
    double rest;       // up to a quarter of pi, on both sides
    uint64_t quarter;  // turns before it; the lowest two bits count

    explicit Turn(double angle) {
        constexpr double ROUNDING = 6755399441055744.0, HALF_PI = 1.57079632673412561417e+00, LEFT = 6.07710050650619224932e-11;
        const double shifted = angle * 6.36619772367581382433e-01 + ROUNDING, whole = shifted - ROUNDING;
        rest = (angle - whole * HALF_PI) - whole * LEFT;
        memcpy(&quarter, &shifted, sizeof quarter);
    }

    float sine() const {
        const double square = rest * rest;
        double part = 1.58969099521155010221e-10;
        for (double term : {-2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
                            8.33333333332248946124e-03, -1.66666666666666324348e-01})
            part = part * square + term;
        return float(rest + rest * square * part);
    }

    float cosine() const {
        const double square = rest * rest;
        double part = -1.13596475577881948265e-11;
        for (double term : {2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                            -1.38888888888741095749e-03, 4.16666666666666019037e-02})
            part = part * square + term;
        return float(1 - (0.5 * square - square * square * part));
    }
};

float sine_of(float angle) {
    const Turn turn(angle);
    const float size = turn.quarter & 1 ? turn.cosine() : turn.sine();
    return turn.quarter & 2 ? -size : size;
}

float cosine_of(float angle) {
    const Turn turn(angle);
    const float size = turn.quarter & 1 ? turn.sine() : turn.cosine();
    return (turn.quarter + 1) & 2 ? -size : size;
}

// Rows at length 1.
void unit(float *to, const float *from, size_t rows, size_t width) {
    for (; rows--; to += width, from += width) {
        double square = 0;
        for (size_t at = 0; at < width; at++) square += double(from[at]) * from[at];
        const float by = 1 / std::max(float(std::sqrt(square)), SMALLEST_NORM);
        for (size_t at = 0; at < width; at++) to[at] = from[at] * by;
    }
}

template <class T> void add(float *to, const T *from, size_t count, float scale) {
    for (size_t at = 0; at < count; at++) to[at] += float(from[at]) * scale;
}

}  // namespace

Error Session::open(const std::string &model, int threads) {
    int failure = file_.open(model.c_str());
    if (!failure) failure = words_.open(model);
    if (failure) return fail(BUNDLE, "cannot read " + model + ": " + strerror(failure), COPY_AGAIN);
    PlanView plan{file_.data(), file_.size(), {}, nullptr, nullptr};
    if (const char *rule = broken_rule(plan))
        return fail(BUNDLE, model + " is damaged: it is not the plan that was made, in which " + rule, COPY_AGAIN);
    header_ = plan.header, buffers_ = plan.buffers, steps_ = plan.steps;
    for (size_t at = header_.pooled; at < header_.steps; at++)
        if (steps_[at].operation == POOL) behind_ = at + 1;
    kernels_ = &kernels_here();
    threads_ = size_t(std::max(threads, 1));
    return {};
}

std::unique_ptr<Session::Work> Session::take() const {
    std::lock_guard<std::mutex> held(mutex_);
    if (idle_.empty()) return std::make_unique<Work>();
    auto work = std::move(idle_.back());
    idle_.pop_back();
    return work;
}

void Session::give(std::unique_ptr<Work> work) const {
    std::lock_guard<std::mutex> held(mutex_);
    idle_.push_back(std::move(work));
}

Error Session::fill(const Batch &batch, Work &work, bool all) const {
    if (batch.length > header_.longest)
        return fail(RUNTIME, "the plan is for texts of " + std::to_string(header_.longest) + " tokens, not of " + std::to_string(batch.length), TRY_SELF_TEST);
    work.ids.clear(), work.types.clear(), work.positions.clear(), work.places.clear(), work.seen.clear();
    work.starts.assign(1, 0);
    for (size_t row = 0; row < batch.rows; row++) {
        auto take = [&](size_t length, bool seen) {
            for (size_t place = row * batch.length, end = place + length; place < end; place++) {
                if (bool(batch.mask[place]) != seen) continue;
                work.positions.push_back(uint32_t(work.ids.size()) - work.starts.back());
                work.ids.push_back(uint32_t(batch.ids[place]));
                work.types.push_back(uint32_t(batch.types[place]));
                work.places.push_back(uint32_t(place));
            }
        };
        take(batch.length, true);
        work.seen.push_back(uint32_t(work.ids.size()) - work.starts.back());
        // Those that others do not attend to have vectors, too, where a text has any.
        if (all && work.seen.back() && !batch.sizes.empty()) take(std::min(batch.sizes[row], batch.length), false);
        work.starts.push_back(uint32_t(work.ids.size()));
    }
    work.tokens = work.ids.size();
    return {};
}

size_t Session::rows_for(const Work &work, const Buffer &buffer) const {
    return buffer.kept ? work.tokens : work.lanes > 1 ? work.lanes * TOGETHER : std::min(work.tokens, TOGETHER);
}

// Whether addresses count the bytes of all that a batch takes: of 32 bits, a plan of wide buffers could ask for more.
bool Session::is_countable(const Work &work, size_t longest, size_t widest, size_t given) const {
    if (sizeof(size_t) == sizeof(uint64_t)) return true;
    const uint64_t tokens = work.tokens;
    uint64_t bytes = sizeof(float) * (work.vectors_in_all() * header_.dimension + tokens * given + uint64_t(work.lanes) * (longest + 3 * KEYS) * (2 * widest + PANEL));
    for (size_t at = 0; at < header_.buffers; at++)
        bytes += uint64_t(rows_for(work, buffers_[at])) * buffers_[at].width * buffers_[at].bytes + ALIGNMENT;
    return bytes <= SIZE_MAX / 2;
}

Error Session::reserve(Work &work, bool all) const {
    const size_t texts = work.starts.size() - 1;
    size_t longest = 0, widest = 0, room = 0;
    for (size_t text = 0; text < texts; text++)
        longest = std::max<size_t>(longest, work.starts[text + 1] - work.starts[text]);
    for (size_t at = 0; at < header_.steps; at++)
        if (steps_[at].operation == ATTENTION || steps_[at].operation == ROTATE) widest = std::max<size_t>(widest, steps_[at].sizes[2]);
    work.lanes = std::clamp<size_t>(work.tokens / SHARED, 1, threads_);
    const size_t given = all ? header_.given : 0;
    if (!is_countable(work, longest, widest, given))
        return fail(RUNTIME, "so many tokens at once take more memory than there can be", "shorter texts, or fewer at once");
    work.vectors.assign(work.vectors_in_all() * header_.dimension, 0);
    work.given.assign(work.tokens * given, 0);
    for (size_t at = 0; at < header_.steps; at++)
        if (steps_[at].operation == ATTENTION) room = std::max(room, attention_room(longest, steps_[at].sizes[2]));
    work.room = room;
    if (work.attention.size() < room * work.lanes) work.attention.resize(room * work.lanes);
    turn(work, longest);
    if (work.tokens <= work.capacity) return {};
    work.capacity = work.tokens;
    work.buffers.clear();
    work.ranges.clear();
    for (size_t at = 0; at < header_.buffers; at++) {
        const Buffer &buffer = buffers_[at];
        const size_t rows = rows_for(work, buffer);
        work.buffers.emplace_back(new uint8_t[rows * buffer.width * buffer.bytes + ALIGNMENT]);
        work.ranges.emplace_back(buffer.bytes == 1 ? rows : 0);
    }
    return {};
}

size_t Session::row_of(uint32_t buffer, const Few &few) const { return buffers_[buffer].kept ? few.first : few.lane * TOGETHER; }

uint8_t *Session::rows(const Work &work, uint32_t buffer, const Few &few) const {
    const Buffer &one = buffers_[buffer];
    auto begin = (reinterpret_cast<uintptr_t>(work.buffers[buffer].get()) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return reinterpret_cast<uint8_t *>(begin) + row_of(buffer, few) * one.width * one.bytes;
}

float *Session::ranges(const Work &work, uint32_t buffer, const Few &few) const {
    return const_cast<float *>(work.ranges[buffer].data()) + row_of(buffer, few);
}

// Cosines and sines of all positions up to the longest text's, that of each worker; they grow with the texts.
void Session::turn(Work &work, size_t longest) const {
    for (size_t at = 0; at < header_.steps; at++) {
        const Step &step = steps_[at];
        if (step.operation != ROTATE) continue;
        std::vector<float> &turns = work.turns[step.tensors[0]];
        const size_t size = step.sizes[2], half = size / 2;
        const float *frequencies = numbers(step.tensors[0]);
        for (size_t position = turns.size() / size; position < longest; position++) {
            turns.resize((position + 1) * size);
            for (size_t index = 0; index < half; index++) {
                const float angle = float(position) * frequencies[index];
                turns[position * size + index] = cosine_of(angle);
                turns[position * size + half + index] = sine_of(angle);
            }
        }
    }
}

// A word's row, added to `to`. It is read and not mapped: of a mapped table the system keeps sixteen pages around each word that was ever met.
bool Session::add_word(const Step &step, size_t row, float *to) const {
    const size_t width = step.sizes[0], size = step.tensors[1] ? 1 : sizeof(float);
    const float scale = step.tensors[1] ? numbers(step.tensors[1])[row] : 1;
    alignas(ALIGNMENT) uint8_t bytes[AT_ONCE];
    for (size_t at = 0; at < width; at += AT_ONCE / size) {
        const size_t count = std::min(width - at, AT_ONCE / size);
        if (!words_.read(step.tensors[0] + (row * width + at) * size, bytes, count * size)) return false;
        if (size == 1) add(to + at, reinterpret_cast<const int8_t *>(bytes), count, scale);
        else add(to + at, reinterpret_cast<const float *>(bytes), count, scale);
    }
    return true;
}

void Session::lookup(const Step &step, Work &work, const Few &few) const {
    const size_t width = step.sizes[0], last = step.sizes[1] - 1;
    const auto &index = step.from[0] == OF_TOKENS ? work.ids : step.from[0] == OF_TYPES ? work.types : work.positions;
    const uint32_t padding = step.sizes[3];
    const float *scales = numbers(step.tensors[1]);
    for (size_t row = 0; row < few.count; row++) {
        size_t place = index[few.first + row];
        if (step.from[0] == OF_COUNTED) {
            // Tokens up to this one, padding among them not counted: hardly ever any.
            const auto begin = work.ids.begin() + std::ptrdiff_t(few.first + row - place), here = begin + std::ptrdiff_t(place);
            place = *here == padding ? 0 : place + 1 - size_t(std::count(begin, here, padding));
        }
        const size_t at = std::min(place + step.sizes[2], last);
        float *to = floats(work, step.to[0], few) + row * width;
        if (!(step.flags & ACCUMULATED)) std::fill(to, to + width, 0.0f);
        if (step.from[0] == OF_TOKENS) {
            if (!add_word(step, at, to)) work.unread = true;
        } else if (scales) {
            add(to, reinterpret_cast<const int8_t *>(file_.data() + step.tensors[0]) + at * width, width, scales[at]);
        } else {
            add(to, numbers(step.tensors[0]) + at * width, width, 1);
        }
    }
}

void Session::compute_rows(Work &work, size_t at, size_t end, const Few &few) const {
    for (; at < end; at++) {
        const Step &step = steps_[at];
        auto in = [&](int index) { return step.from[index] == NOTHING ? nullptr : floats(work, step.from[index], few); };
        if (step.operation == LOOKUP) lookup(step, work, few);
        if (step.operation == NORM) {
            Norm task{};
            task.input = in(0), task.skip = in(1);
            task.bias = numbers(step.tensors[0]), task.weight = numbers(step.tensors[1]);
            task.shift = numbers(step.tensors[2]), task.smoothing = numbers(step.tensors[3]);
            task.epsilon = step.numbers[0], task.without_mean = step.flags & WITHOUT_MEAN;
            task.output = floats(work, step.to[0], few);
            if (step.to[2] != NOTHING) task.sum = floats(work, step.to[2], few);
            if (step.to[1] != NOTHING) task.quantized = rows(work, step.to[1], few), task.ranges = ranges(work, step.to[1], few);
            task.rows = few.count, task.width = step.sizes[0], task.counted = step.sizes[1];
            kernels_->norm(task);
        }
        if (step.operation == QUANTIZE) {
            Quantization task{};
            task.input = in(0) + step.sizes[1], task.smoothing = numbers(step.tensors[0]);
            task.raise = step.numbers[0], task.is_unsigned = step.flags & UNSIGNED;
            task.output = rows(work, step.to[0], few), task.ranges = ranges(work, step.to[0], few);
            task.rows = few.count, task.width = step.sizes[0], task.stride = buffers_[step.from[0]].width;
            kernels_->quantize(task);
        }
        if (step.operation == PRODUCT) {
            Product task{};
            task.input = rows(work, step.from[0], few), task.ranges = ranges(work, step.from[0], few);
            task.weights = reinterpret_cast<const int8_t *>(file_.data() + step.tensors[0]);
            task.sums = reinterpret_cast<const int32_t *>(file_.data() + step.tensors[1]), task.zero = int32_t(step.sizes[3]);
            task.scales = numbers(step.tensors[2]), task.bias = numbers(step.tensors[3]);
            task.output = floats(work, step.to[0], few) + step.sizes[4], task.stride = buffers_[step.to[0]].width;
            task.rows = few.count, task.depth = step.sizes[0], task.width = step.sizes[1], task.activation = step.sizes[2];
            kernels_->product(task);
        }
        if (step.operation == GATE) kernels_->gate({in(0), floats(work, step.to[0], few), few.count, step.sizes[0], step.sizes[1]});
        if (step.operation == ROTATE || step.operation == NORM_HEADS) {
            Heads task{};
            task.first = floats(work, step.to[0], few) + step.sizes[0];
            task.rows = few.count, task.stride = buffers_[step.to[0]].width, task.count = step.sizes[1], task.size = step.sizes[2];
            task.counted = step.sizes[3];
            task.weight = numbers(step.tensors[0]), task.epsilon = step.numbers[0];
            task.positions = &work.positions[few.first];
            if (step.operation == ROTATE) task.turns = work.turns.at(step.tensors[0]).data();
            (step.operation == ROTATE ? kernels_->rotate : kernels_->norm_heads)(task);
        }
        if (step.operation == POOL) pool(step, work, few);
        if (step.operation == UNIT) unit(floats(work, step.to[0], few), in(0), few.count, step.sizes[0]);
        if (step.operation == GIVE && !work.given.empty()) {
            const size_t stride = buffers_[step.from[0]].width;
            for (size_t row = 0; row < few.count; row++)
                memcpy(&work.given[(few.first + row) * header_.given + step.sizes[1]], in(0) + row * stride, step.sizes[0] * sizeof(float));
        }
        if (step.operation == ALTER || step.operation == COMBINE || step.operation == SHARES)
            compute_each({step, in(0), step.operation == COMBINE ? in(1) : nullptr, floats(work, step.to[0], few), few.count, buffers_[step.to[0]].width});
    }
}

// A text's attention, or, where threads share it, that of one head.
void Session::attend(const Step &step, const Work &work, size_t piece, size_t lane) const {
    const size_t heads = step.sizes[0], groups = step.sizes[1], pieces = work.lanes > 1 ? heads : 1;
    const size_t text = piece / pieces, head = piece % pieces;
    const Few few{work.starts[text]};
    Attention task{};
    task.tokens = work.starts[text + 1] - few.first, task.keys = work.seen[text];
    if (!task.tokens) return;
    task.stride = buffers_[step.from[0]].width, task.output_stride = buffers_[step.to[0]].width;
    task.heads = heads / pieces, task.groups = pieces > 1 ? 1 : groups, task.size = step.sizes[2];
    task.radius = step.sizes[5], task.causal = step.flags & CAUSAL, task.in_floats = step.flags & IN_FLOATS;
    task.scale = step.numbers[0], task.distances = numbers(step.tensors[0]), task.reach = step.sizes[6];
    if (task.distances) task.distances += head * task.reach;
    if (step.tensors[1]) {
        task.kinds = reinterpret_cast<const int32_t *>(file_.data() + step.tensors[1]);
        task.kinds_count = step.sizes[7];
        auto of = [&](uint32_t buffer) {
            if (buffer == NOTHING) return static_cast<const float *>(nullptr);
            task.kinds_stride = buffers_[buffer].width;
            return static_cast<const float *>(floats(work, buffer, few) + head * task.kinds_count);
        };
        task.by_query = of(step.from[1]), task.by_key = of(step.from[2]);
    }
    task.room = const_cast<float *>(work.attention.data()) + lane * work.room;
    const float *first = floats(work, step.from[0], few);
    const size_t group = head / (heads / groups) * task.size;
    task.query = first + head * task.size, task.key = first + step.sizes[3] + group, task.value = first + step.sizes[4] + group;
    task.output = floats(work, step.to[0], few) + head * task.size;
    kernels_->attention(task);
}

void Session::Progress::each(size_t wanted, size_t pieces, const std::function<void(size_t)> &work) {
    std::unique_lock<std::mutex> held(mutex);
    while (stage == wanted && next < pieces) {
        const size_t piece = next++;
        held.unlock();
        work(piece);
        held.lock();
        if (++done < pieces) continue;
        stage++, next = done = 0;
        changed.notify_all();
    }
    changed.wait(held, [&] { return stage > wanted; });
}

// Between attentions no token needs another: a few at a time go through all steps, and their numbers stay in the cache.
void Session::compute(Work &work) const {
    if (!work.tokens) return;
    Progress progress;
    on_threads(work.lanes, [&] { compute_stages(work, progress); });
}

void Session::compute_stages(Work &work, Progress &progress) const {
    const size_t lane = progress.lanes++, texts = work.starts.size() - 1;
    const size_t least = (work.tokens + TOGETHER - 1) / TOGETHER, shares = (least + work.lanes - 1) / work.lanes * work.lanes;
    // As many rows for each thread; of one thread's, the last are what is left.
    const size_t together = work.lanes > 1 ? (work.tokens + shares - 1) / shares : TOGETHER;
    size_t stage = 0;
    for (size_t at = 0, end; at < header_.pooled; at = end, stage++) {
        const bool attends = steps_[at].operation == ATTENTION;
        for (end = at + 1; !attends && end < header_.pooled && steps_[end].operation != ATTENTION;) end++;
        if (attends) {
            const size_t pieces = work.lanes > 1 ? steps_[at].sizes[0] : 1;
            progress.each(stage, texts * pieces, [&](size_t piece) { attend(steps_[at], work, piece, lane); });
        } else {
            progress.each(stage, (work.tokens + together - 1) / together, [&](size_t piece) {
                const size_t first = piece * together;
                compute_rows(work, at, end, {first, std::min(together, work.tokens - first), lane});
            });
        }
    }
    progress.each(stage, work.vectors_in_all(), [&](size_t span) { make_vector(work, span, lane); });
}

// Adds a few of a text's tokens to what is known of it.
void Session::pool(const Step &step, const Work &work, const Few &few) const {
    const size_t mode = step.sizes[0], width = step.sizes[1], stride = buffers_[step.from[0]].width, count = few.end - few.begin;
    const float *from = floats(work, step.from[0], few);
    float *to = floats(work, step.to[0], few) + step.sizes[2];
    const bool first = few.first == few.begin, last = few.first + few.count == few.end;
    if (first) std::fill(to, to + buffers_[step.to[0]].width - step.sizes[2], 0.0f);
    if (mode == FIRST || mode == LAST) {
        const float *one = from + (mode == FIRST ? 0 : few.count - 1) * stride;
        if (mode == FIRST ? first : last) std::copy(one, one + width, to);
        return;
    }
    for (size_t row = 0; row < few.count; row++) {
        const size_t place = few.first - few.begin + row;
        for (size_t at = 0; at < width; at++) {
            const float number = from[row * stride + at];
            if (mode == LARGEST) to[at] = place ? std::max(to[at], number) : number;
            else to[at] += mode == RISING ? number * float(place + 1) : number;
        }
    }
    if (!last || mode == LARGEST || mode == SUM) return;
    const float by = mode == ROOT ? std::sqrt(float(count)) : float(mode == RISING ? count * (count + 1) / 2 : count);
    for (size_t at = 0; at < width; at++) to[at] /= by;
}

void Session::make_vector(Work &work, size_t span, size_t lane) const {
    const auto [begin, end] = work.span(span);
    if (begin == end) return;
    for (size_t first = begin; first < end; first += TOGETHER)
        compute_rows(work, header_.pooled, behind_, {first, std::min(TOGETHER, end - first), lane, begin, end});
    const Few one{begin, 1, lane};
    compute_rows(work, behind_, header_.steps, one);
    memcpy(&work.vectors[span * header_.dimension], floats(work, header_.vector, one), header_.dimension * sizeof(float));
}

Error Session::run(const Batch &batch, size_t dimension, std::vector<float> &vectors, TokenVectors *tokens,
                   const std::vector<std::vector<size_t>> &ends) const {
    if (dimension != header_.dimension)
        return fail(RUNTIME, "the plan makes " + std::to_string(header_.dimension) + " dimensions, the manifest says " +
                                 std::to_string(dimension), TRY_SELF_TEST);
    const bool all = tokens && tokens->width;
    if (all && tokens->width != header_.given)
        return fail(RUNTIME, "the plan gives " + std::to_string(header_.given) + " numbers a token, the manifest says " +
                                 std::to_string(tokens->width), TRY_SELF_TEST);
    auto work = take();
    if (Error error = fill(batch, *work, all)) return error;
    work->spans.clear();
    for (size_t row = 0; HAS_PARTS && row < ends.size(); row++) {
        const size_t start = work->starts[row], seen = work->seen[row];
        size_t begin = start;
        for (size_t end : ends[row]) work->spans.push_back({begin, start + std::min(end, seen)}), begin = start + std::min(end, seen);
    }
    if (Error error = reserve(*work, all)) return error;
    compute(*work);
    if (work->unread) return fail(RUNTIME, "the plan's file cannot be read any more", COPY_AGAIN);
    vectors.insert(vectors.end(), work->vectors.begin(), work->vectors.end());
    if (all) {
        tokens->numbers.assign(batch.rows * batch.length * tokens->width, 0);
        for (size_t token = 0; token < work->tokens; token++)
            memcpy(&tokens->numbers[work->places[token] * tokens->width], &work->given[token * tokens->width], tokens->width * sizeof(float));
    }
    give(std::move(work));
    return {};
}

const EncoderFacts ENCODER = {"none: edgepack's own kernels", "", false};

Error open_encoder(const std::string &, const std::string &model, int threads, std::unique_ptr<Encoder> &encoder) {
    auto made = std::make_unique<Session>();
    Error error = made->open(model, threads);
    encoder = std::move(made);
    return error;
}

}  // namespace embed
