"""Each kernel with one thing wrong in it, and so the session: a test notices, the one that is named here.

A mutant is one change of a line that compiles. What is not here because nothing that can be tested changes:

- attention's last tile of causal texts (``if (task.causal) last = …``), and its loops for two vectors: slower, the same numbers;
- zeros behind a short tile's keys: scores of what lies there are overwritten;
- zeros behind a block's queries: what is made of them is read by nobody;
- ``earlier > 0.5f * LOWEST``: what a tile of masked keys alone adds is faded to 2^-100 of it without that, and then to nothing seen;
- what is fetched before it is wanted: slower without;
- rows of a piece rounded down: more pieces, of fewer rows;
- dpbusds for dpbusd: sums stay below 2^31, so nothing saturates;
- ``if (!task.tokens) return``: a text of no tokens has nothing to attend to;
- room that two threads share (``lane * work.room``): a race, which may go well. ThreadSanitizer sees it (test_sanitizers.py).
"""

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import engine_arm64, engine_kernels, engine_session
from tests.support.engine_tried import FAILED, tried

from edgepack_engine.builder import sources

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tools("python"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64"),
]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change, and the test that fails of it."""

    file: str
    now: str
    then: str
    test: str
    level: str = ""
    """Of a kernel; none of the session."""

    def __str__(self) -> str:
        return f"{self.level or 'session'}, {self.test}, {self.then or 'without ' + self.now}"[:70]


def kernel(test: str, now: str, then: str, *, level: str = "avx2", file: str = "kernels.inc") -> Mutant:
    return Mutant(file=file, now=now, then=then, test=f"test_kernels.py::test_{test}", level=level)


def numbers(test: str, now: str, then: str, *, level: str = "avx2") -> Mutant:
    return kernel(test, now, then, level=level, file="numbers.inc")


def attention(now: str, then: str, *, level: str = "avx2") -> Mutant:
    return kernel("attention", now, then, level=level, file="attention.inc")


def bits(file: str, now: str, then: str, *, level: str) -> Mutant:
    """What one digest of a small plan's vectors sees."""
    return Mutant(file=file, now=now, then=then, test="test_bits.py::test_one_digest", level=level)


def session(test: str, now: str, then: str, *, file: str = "session.cc") -> Mutant:
    return Mutant(file=file, now=now, then=then, test=f"test_session.py::test_{test}")


NORMS = (
    kernel("norms", "            if (skip) numbers += load(skip + at);\n", ""),
    kernel("norms", "if (task.bias) numbers += load(task.bias + at);", ""),
    kernel("norms", "/ float(counted) + epsilon)", "/ float(counted))"),
    kernel("norms", "/ float(counted) + epsilon)", "/ float(width) + epsilon)"),
    kernel("norms", "sum_of(total) / float(task.counted)", "sum_of(total) / float(width)"),
    kernel("norms", "            fill(each, means[each]);\n", ""),
    kernel("norms", "            fill(each, 0);\n", ""),
    kernel("norms", "squares.parts[part] += numbers * numbers", "squares.parts[part] = numbers * numbers"),
    kernel("norms", "task.without_mean ? 0 : sum_of(total)", "sum_of(total)"),
    kernel("norms", "if (task.shift) numbers += load(task.shift + column);", ""),
    kernel("norms", "    total += turned<1>(total);\n", "", file="numbers.inc"),
    kernel(
        "norms",
        "quantize_few(output, width, task.smoothing, 0",
        "quantize_few(output, width, nullptr, 0",
    ),
    kernel("norms", "- means[each])", "- means[0])"),
    kernel("norms", "* by[each] *", "* by[0] *"),
    kernel("norms", "first < FEW ? task.rows - first : FEW", "first < FEW ? FEW : FEW"),
    kernel(
        "norms_of_heads",
        "root_of(numbers, 0, task.epsilon, task.size,",
        "root_of(numbers, 0, 0, task.size,",
    ),
    kernel("norms_of_heads", "task.size, task.counted)", "task.size, task.size)"),
    kernel("norms_of_heads", "by * load(task.weight + at));", "by);"),
)
BYTES = (
    kernel("bytes", "(is_unsigned ? 255.0f : 127.0f)", "(is_unsigned ? 255.0f : 128.0f)"),
    kernel("bytes", "(is_unsigned ? 255.0f : 127.0f)", "(is_unsigned ? 256.0f : 127.0f)"),
    kernel("bytes", "numbers + raise : size_of(numbers)", "numbers + raise : numbers"),
    kernel("bytes", "numbers + raise : size_of(numbers)", "numbers : size_of(numbers)"),
    kernel("bytes", "        if (is_unsigned) numbers += raise;\n", ""),
    kernel(
        "bytes",
        "    numbers = larger(numbers, turned<1>(numbers));\n",
        "",
        file="numbers.inc",
    ),
    kernel(
        "bytes",
        "quantize_few(task.input + row * task.stride, task.stride,",
        "quantize_few(task.input + row * task.width, task.width,",
    ),
    kernel("bytes", "range_of(rows + each * stride", "range_of(rows + each * width"),
    kernel("bytes", "    for (; at < width; at += LANES) look(at, 0);\n", ""),
    kernel("bytes", "larger(most[2], most[3])", "most[2]"),
    kernel("zeros_are_the_byte_of_zero", "range > SMALLEST_RANGE ? range : SMALLEST_RANGE", "range"),
    kernel(
        "halves_go_to_even_bytes",
        "bits_of(numbers * share + ROUNDING) ^ middle",
        "__builtin_convertvector(numbers * share + 128.5f, Ints) - 128 + middle",
    ),
)
PRODUCTS = (
    kernel("products", "* (MIDDLE - task.zero)", "* MIDDLE"),
    kernel("products", "        product_rest<ACTIVATION>(task, row, column);\n", ""),
    kernel("products", "task.ranges[row + each]", "task.ranges[row]"),
    kernel(
        "products",
        "column / PANEL * PANEL * depth + column % PANEL * DEPTH",
        "column / PANEL * PANEL * depth",
        file="level.h",
    ),
    kernel("products", "deep < depth; deep += DEPTH", "deep + DEPTH < depth; deep += DEPTH"),
    kernel(
        "products",
        " + load(task.bias + at);\n            store(task.output",
        ";\n            store(task.output",
    ),
    kernel(
        "products",
        "column < task.width; column += VECTORS * LANES",
        "column + VECTORS * LANES < task.width; column += VECTORS * LANES",
    ),
    kernel("products", "row + ROWS <= task.rows", "row + ROWS < task.rows", level="avx512"),
    kernel(
        "products", "load(task.scales + at) * range", "load(task.scales + column) * range", level="avx512"
    ),
    kernel(
        "products",
        "case GELU_TANH: return product_with<GELU_TANH>",
        "case GELU_TANH: return product_with<GELU>",
    ),
)
ACTIVATIONS = (
    numbers("activations", "numbers = larger(numbers, all(-87.0f));", ""),
    numbers(
        "activations",
        "larger(smaller(numbers, all(4.15f)), all(-4.15f))",
        "larger(smaller(numbers, all(4.5f)), all(-4.5f))",
    ),
    numbers("activations", "int term = 6; term >= 0;", "int term = 6; term > 0;"),
    numbers("activations", "0.0713548163f", "0.0713f"),
    numbers("activations", "below : 1.0f - below", "below : below"),
    numbers("exponentials", "1.6666665459e-1f", "1.6665e-1f"),
    kernel("gates", "task.input + 2 * row * task.width", "task.input + row * task.width"),
    kernel(
        "gates",
        "(load(input + at)) * load(input + task.width + at)",
        "(load(input + task.width + at)) * load(input + at)",
    ),
)
BITS = (
    # What no tolerance sees: a product and a sum in one, another order, another last digit.
    kernel(
        "norms",
        "#pragma clang fp contract(off)",
        "#pragma clang fp contract(fast)",
        level="avx512",
        file="unfused.h",
    ),
    kernel("products", "#pragma clang fp contract(off)", "", level="avx512", file="unfused.h"),
    kernel(
        "norms",
        "            total.parts[part] += numbers;\n",
        "            total.parts[0] += numbers;\n",
    ),
    numbers(
        "norms",
        "for (int half = PARTS / 2; half; half /= 2)",
        "for (int half = 1; half < PARTS; half *= 2)",
        level="base",
    ),
    numbers("attention", "0.0550087690f", "0.0550087760f"),
    numbers("activations", "8.3334519073e-3f", "8.3334529073e-3f"),
    numbers("gates", "below = power / (1.0f + power)", "below = power * (1.0f / (1.0f + power))"),
    attention("constexpr float LOG2E = 1.44269504f", "constexpr float LOG2E = 1.44269516f"),
    attention("scale = range / 127.0f", "scale = range * (1 / 127.0f)"),
    bits("unfused.h", "#pragma clang fp contract(off)", "#pragma clang fp contract(fast)", level="avx512"),
    bits("kernels.inc", "total.parts[part] += numbers;\n", "total.parts[0] += numbers;\n", level="avx2"),
    bits("numbers.inc", "total += turned<2>(total);", "total += turned<3>(total);", level="sse41"),
    bits("numbers.inc", "0.242210984f", "0.242210999f", level="base"),
    bits("numbers.inc", "1.6666665459e-1f", "1.6665e-1f", level="avx2"),
)
ATTENTION = (
    attention("tiles.query_scales[tile.at + each];", "tiles.query_scales[tile.at];"),
    attention("tiles.key_scales + tile.first + at)", "tiles.key_scales + at)"),
    attention("largest = larger(largest, load(scores", "largest = smaller(largest, load(scores"),
    attention("load(totals + at) * load(made.fades + at)", "load(totals + at)"),
    attention("tiles.totals[tile.at + each] = totals[each]", "tiles.totals[tile.at + each] = totals[0]"),
    attention("at < tile.padded; at++) row[at] = LOWEST;", "at < tile.padded; at++) row[at] += 0;"),
    attention("apart > task.radius)", "apart >= task.radius)"),
    attention("task.causal && key > query", "task.causal && key >= query"),
    attention(
        "head * task.reach + task.reach / 2 + tile.first - query;",
        "head * task.reach + task.reach / 2 + query - tile.first;",
    ),
    attention(
        "task.kinds + task.reach / 2 + tile.first - query;",
        "task.kinds + task.reach / 2 + query - tile.first;",
    ),
    attention("task.distances + head * task.reach", "task.distances"),
    attention("(begin - task.radius) / KEYS * KEYS : 0", "begin / KEYS * KEYS : 0"),
    attention("last = end + task.radius < last ? end + task.radius : last", "last = end < last ? end : last"),
    attention("task.value + group * task.size", "task.value"),
    attention("1 / tiles.totals[at]", "1 / tiles.totals[0]"),
    attention("load(to) * weighed.fades[each]", "load(to)"),
    attention("power *= load(tiles.value_scales + tile.first + key);", ""),
    attention("load(heavy + at) / 255.0f", "load(heavy + at) / 256.0f"),
    attention("255.0f / load(heavy + at)", "254.0f / load(heavy + at)"),
    attention("int(each * PART_BITS)", "int(each * PART_BITS / 2)"),
    attention("(MIDDLE - QUERY_ZERO)", "MIDDLE", level="avx512"),
    attention("sum += load(values + key", "sum = load(values + key"),
    attention(
        "    for (; column < task.size; column += LANES) add_values<1>(task, tiles, tile, bytes, weighed, column);\n",
        "",
        level="avx512",
    ),
    attention(
        "    for (; column < tile.padded; column += LANES) scores_of<1>(task, tiles, tile, column, scores);\n",
        "",
        level="avx512",
    ),
)
ROTATIONS = (
    kernel(
        "rotary_positions_are_the_stock_librarys",
        "before * cosines[at] - after * sines[at]",
        "before * cosines[at] + after * sines[at]",
    ),
    kernel("rotary_positions_are_the_stock_librarys", "task.positions[row] * task.size", "row * task.size"),
)


def dot(level: str, test: str, now: str, then: str) -> Mutant:
    return kernel(test, now, then, level=level, file=f"kernels_{level}.cc")


def arm64(test: str, now: str, then: str, *, file: str) -> Mutant:
    return kernel(test, now, then, level="arm64", file=file)


LEVELS = (
    dot(
        "avx512",
        "products",
        "_mm512_set1_epi32(four), _mm512_loadu_si512(weights)",
        "_mm512_loadu_si512(weights), _mm512_set1_epi32(four)",
    ),
    dot("avxvnni", "products", "_mm256_set1_epi32(four), bytes", "bytes, _mm256_set1_epi32(four)"),
    dot("avx2", "products", "_mm256_add_epi32(__m256i(sums), ", "(__m256i)("),
    dot(
        "avx2",
        "sums_of_16_bits_hold_the_largest_pairs",
        "_mm256_set1_epi32(four), bytes",
        "bytes, _mm256_set1_epi32(four)",
    ),
    dot(
        "sse41",
        "sums_of_16_bits_hold_the_largest_pairs",
        "_mm_set1_epi32(four), bytes",
        "bytes, _mm_set1_epi32(four)",
    ),
    dot("base", "products", "_mm_shuffle_ps(low, high, 0xDD)", "_mm_shuffle_ps(low, high, 0x88)"),
    dot("base", "products", "_mm_cmpgt_epi8(none, raw)", "_mm_cmpgt_epi8(raw, none)"),
    arm64(
        "products",
        "vmull_s8(vget_high_s8(raw), bytes)",
        "vmull_s8(vget_low_s8(raw), bytes)",
        file="kernels_base.cc",
    ),
    arm64("products", "vpadalq_s16(int32x4_t(sums), pairs)", "vpaddlq_s16(pairs)", file="kernels_base.cc"),
    arm64(
        "products",
        "constexpr int MIDDLE = 128, VECTORS",
        "constexpr int MIDDLE = 127, VECTORS",
        file="kernels_base.cc",
    ),
    arm64("products", "constexpr int MIDDLE = 128;", "constexpr int MIDDLE = 0;", file="kernels_neon.cc"),
    arm64("products", "int32_t(0x80808080)", "int32_t(0x00808080)", file="kernels_neon.cc"),
    arm64(
        "products", "sums[2 * pair + 1][vector] +=", "sums[2 * pair + 1][vector] =", file="kernels_i8mm.cc"
    ),
    arm64("products", "if constexpr (COUNT % 2)", "if constexpr (COUNT % 2 > 1)", file="kernels_i8mm.cc"),
    arm64("products", "four_of(last + DEPTH)", "four_of(last)", file="kernels_i8mm.cc"),
    arm64(
        "attention",
        "columns_at(column + vector * LANES, deepest)",
        "columns_at(column + vector * LANES, depth)",
        file="kernels_i8mm.cc",
    ),
    arm64(
        "attention",
        "largest = larger(largest, load(scores",
        "largest = smaller(largest, load(scores",
        file="attention.inc",
    ),
)
THREADS, VECTORS = "threads_that_share_texts_change_no_bit", "vectors_are_those_of_the_plan"
TOKENS = "what_tokens_have_is_given_for_those_too_that_others_do_not_attend_to"
SESSION = (
    session(VECTORS, "if (bool(batch.mask[place]) != seen) continue;", ""),
    session(
        VECTORS,
        "positions.push_back(uint32_t(work.ids.size()) - work.starts.back())",
        "positions.push_back(uint32_t(work.ids.size()))",
    ),
    session(VECTORS, "batch.length > header_.longest", "batch.length >= header_.longest"),
    session(
        "texts_that_are_too_long_are_refused",
        "batch.length > header_.longest",
        "batch.length > header_.longest + 1",
    ),
    session(
        "texts_that_are_too_long_are_refused",
        "if (dimension != header_.dimension)",
        "if (dimension < header_.dimension)",
    ),
    session(VECTORS, "std::min(place + step.sizes[2], last)", "std::min(place, last)"),
    session(
        "tokens_and_positions_beyond_a_table_are_its_last_row",
        "std::min(place + step.sizes[2], last)",
        "(place + step.sizes[2]) % (last + 1)",
    ),
    session(VECTORS, "place = *here == padding ? 0 : place", "place = place"),
    session(VECTORS, "place + 1 - size_t(std::count(begin, here, padding))", "place + 1"),
    session(VECTORS, "float(from[at]) * scale;", "float(from[at]);"),
    session(VECTORS, "numbers(step.tensors[1])[row] : 1;", "numbers(step.tensors[1])[0] * float(row) : 1;"),
    session("rows_of_words_are_read_in_pieces", "(row * width + at) * size", "(row * width) * size"),
    session(
        "rows_of_words_are_read_in_pieces",
        "std::min(width - at, AT_ONCE / size)",
        "std::min(width - at, AT_ONCE / size - at)",
    ),
    session(VECTORS, "if (!(step.flags & ACCUMULATED)) std::fill", "std::fill"),
    session(VECTORS, "task.input = in(0), task.skip = in(1);", "task.input = in(0);"),
    session(VECTORS, "task.epsilon = step.numbers[0], task.without_mean", "task.without_mean"),
    session(
        VECTORS,
        "task.shift = numbers(step.tensors[2]), task.smoothing = numbers(step.tensors[3]);",
        "task.shift = numbers(step.tensors[2]);",
    ),
    session(VECTORS, "task.without_mean = step.flags & WITHOUT_MEAN", "task.without_mean = false"),
    session(VECTORS, "task.raise = step.numbers[0], ", ""),
    session(
        VECTORS,
        "task.width = step.sizes[0], task.stride = buffers_[step.from[0]].width",
        "task.width = task.stride = step.sizes[0]",
    ),
    session(VECTORS, "task.zero = int32_t(step.sizes[3])", "task.zero = 128"),
    session(VECTORS, "floats(work, step.to[0], few) + step.sizes[0];", "floats(work, step.to[0], few);"),
    session(
        VECTORS,
        "task.weight = numbers(step.tensors[0]), task.epsilon = step.numbers[0];",
        "task.weight = numbers(step.tensors[0]);",
    ),
    session(VECTORS, "&work.positions[few.first]", "&work.positions[0]"),
    session(
        VECTORS,
        "task.output_stride = buffers_[step.to[0]].width",
        "task.output_stride = buffers_[step.from[0]].width",
    ),
    session(VECTORS, "task.radius = step.sizes[5], ", ""),
    session(VECTORS, "first + step.sizes[4] + group", "first + step.sizes[3] + group"),
    session(THREADS, "task.distances += head * task.reach;", "task.distances += 0;"),
    session(THREADS, "head / (heads / groups) * task.size", "head * task.size"),
    session(
        VECTORS,
        "progress.each(stage, (work.tokens + together - 1) / together,",
        "progress.each(stage, work.tokens / together,",
    ),
    session(VECTORS, "mode == FIRST ? 0 : few.count - 1", "mode == FIRST ? 0 : few.count / 2"),
    session(VECTORS, "if (mode == FIRST ? first : last) std::copy", "std::copy"),
    session(VECTORS, "place ? std::max(to[at], number) : number", "std::max(to[at], number)"),
    session(VECTORS, "few.first - few.begin + row", "row"),
    session(VECTORS, "mode == RISING ? number * float(place + 1) : number", "number"),
    session(VECTORS, "count * (count + 1) / 2", "count"),
    session(VECTORS, "std::sqrt(float(count))", "float(count)"),
    session(VECTORS, "to[at] /= by;", ";"),
    session(VECTORS, "to[at] = from[at] * by;", "to[at] = from[at];"),
    session(VECTORS, ", task.counted = step.sizes[1]", ", task.counted = task.width"),
    session(VECTORS, "task.counted = step.sizes[3];", "task.counted = task.size;"),
    session(VECTORS, "{step, in(0), step.operation == COMBINE ? in(1) : nullptr", "{step, in(0), in(0)"),
    session(TOKENS, "task.keys = work.seen[text]", "task.keys = task.tokens"),
    session(TOKENS, "end = begin + work.seen[text]", "end = work.starts[text + 1]"),
    session(TOKENS, "header_.given + step.sizes[1]]", "header_.given]"),
    session(TOKENS, "tokens->numbers[work->places[token] *", "tokens->numbers[token *"),
    *(
        session(VECTORS, now, then, file="each.cc")
        for now, then in (
            ("std::fill(to + width, to + task.stride, 0.0f);", ""),
            ("return number < 0 ? -size : size;", "return size;"),
            ("bits += exponent << 52;", "bits += exponent << 51;"),
            ("return number < 0 ? half : 1 - half;", "return half;"),
            ("std::min(std::max(x, a), b)", "std::min(x, b)"),
            ("from[at] - most - log", "from[at] - most"),
            ("kind == ADDED ? from[at] + other[at]", "kind == ADDED ? from[at]"),
        )
    ),
    session(
        "vectors_of_zeros_stay_zeros",
        "std::max(float(std::sqrt(square)), SMALLEST_NORM)",
        "float(std::sqrt(square))",
    ),
    session("neighbours_change_no_bit", "    work.buffers.clear();\n", ""),
    session(
        "neighbours_change_no_bit",
        "position = turns.size() / size; position < longest",
        "position = turns.empty() ? 0 : longest; position < longest",
    ),
)
MUTANTS = (*NORMS, *BYTES, *PRODUCTS, *ACTIVATIONS, *BITS, *ATTENTION, *ROTATIONS, *LEVELS, *SESSION)


def compiled(folder: Path, level: str, changed: Mapping[str, str]) -> Path:
    if level == "arm64":
        return engine_arm64.compile_program(folder / "kernels", changed)
    if level:
        return engine_kernels.compile_kernels(folder / "kernels.so", [level], changed)
    return engine_session.compile_session(folder / "session.so", changed)


def run(folder: Path, level: str, tests: Iterable[str], changed: Mapping[str, str]) -> tuple[int, str]:
    """pytest's exit status with these tests of what is compiled so, and what it says."""
    if engine_kernels.NEEDS.get(level) and not engine_kernels.has_level(level):
        pytest.skip(f"this processor has no {engine_kernels.NEEDS[level]}")
    library = compiled(folder, level, changed)
    # Those of arm64 are slow; of few shapes, they are quick enough.
    options = ("--slow", "-k", "(neon or dotprod or i8mm) and not 3000") if level == "arm64" else ()
    variable = engine_kernels.LIBRARY if level else engine_session.LIBRARY
    done = tried([*options, *tests], variable, library)
    return done.returncode, done.stdout


@pytest.mark.parametrize("level", sorted({mutant.level for mutant in MUTANTS}))
def test_what_is_not_changed_passes(tmp_path: Path, level: str) -> None:
    wanted = {mutant.test for mutant in MUTANTS if mutant.level == level}
    status, said = run(tmp_path, level, sorted(wanted), {})
    assert status == 0, said
    assert " passed" in said


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_fails_its_test(tmp_path: Path, mutant: Mutant) -> None:
    source = dict(sources())[mutant.file]
    assert source.count(mutant.now) == 1, mutant.now
    changed = {mutant.file: source.replace(mutant.now, mutant.then)}
    status, said = run(tmp_path, mutant.level, [mutant.test], changed)
    assert status == FAILED or status < 0, said
