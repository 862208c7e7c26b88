#include "kernels.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace embed {

extern const Kernels avx512_kernels, avxvnni_kernels, avx2_kernels, sse41_kernels, i8mm_kernels, dotprod_kernels, simd128_kernels, base_kernels;

#if defined(__x86_64__)
namespace {

struct Answer {
    unsigned a, b, c, d;
    Answer(unsigned leaf, unsigned part) { __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part)); }
};

bool has(unsigned bits, int bit) { return bits >> bit & 1; }

// What registers the system saves (XCR0).
unsigned saved() {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

}  // namespace

// Asked of cpuid itself: what compilers offer instead needs a library of theirs.
const Kernels &kernels_here() {
    const Answer first(1, 0);
    const Kernels &old = has(first.c, 9) && has(first.c, 19) ? sse41_kernels : base_kernels;
    if (Answer(0, 0).a < 7) return old;
    const Answer seventh(7, 0), more(7, 1);
    constexpr unsigned YMM = 6, ZMM = 0xE6;
    if (!has(first.c, 27) || !has(first.c, 12) || !has(seventh.b, 5) || (saved() & YMM) != YMM) return old;
    const bool wide = has(seventh.b, 16) && has(seventh.b, 17) && has(seventh.b, 30) && has(seventh.b, 31) && (saved() & ZMM) == ZMM;
    if (wide && has(seventh.c, 11)) return avx512_kernels;
    return has(more.a, 4) ? avxvnni_kernels : avx2_kernels;
}
#elif defined(__aarch64__)
const Kernels &kernels_here() {
    constexpr unsigned long DOTPROD = 1 << 20, I8MM = 1 << 13;
    if (getauxval(AT_HWCAP2) & I8MM) return i8mm_kernels;
    return getauxval(AT_HWCAP) & DOTPROD ? dotprod_kernels : base_kernels;
}
#elif defined(__wasm_simd128__)
const Kernels &kernels_here() { return simd128_kernels; }
#else
const Kernels &kernels_here() { return base_kernels; }
#endif

}  // namespace embed
