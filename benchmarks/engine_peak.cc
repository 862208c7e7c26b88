// Seconds of processor time of the int8 product kernel, and of products of bytes that wait for nothing: what this core can do.
#include <ctime>

#include "level.h"

namespace embed {

extern const Kernels avx512_kernels, avxvnni_kernels;

namespace {

double now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// Twelve sums, so that each instruction's latency passes before its own sum is needed again; no memory.
#define PEAK(NAME, TARGET, VECTOR, DOT)                                                             \
    __attribute__((target(TARGET), noinline)) double NAME(size_t times) {                           \
        VECTOR sums[12] = {}, bytes = {}, weights = {};                                             \
        __asm__ volatile("" : "+x"(bytes), "+x"(weights));                                          \
        const double begin = now();                                                                 \
        for (size_t time = 0; time < times; time++) {                                               \
            _Pragma("unroll") for (VECTOR &sum : sums) sum = DOT(sum, bytes, weights);              \
            _Pragma("unroll") for (VECTOR &sum : sums) __asm__ volatile("" : "+x"(sum));            \
        }                                                                                           \
        return now() - begin;                                                                       \
    }
PEAK(peak_512, "avx512f,avx512vnni,evex512", __m512i, _mm512_dpbusd_epi32)
PEAK(peak_256, "avx2,avxvnni", __m256i, _mm256_dpbusd_avx_epi32)

}  // namespace
}  // namespace embed

// So many rounds of 12 instructions, each of 4 x LANES products.
extern "C" double peak(bool wide, size_t times) { return wide ? embed::peak_512(times) : embed::peak_256(times); }

extern "C" double product(bool wide, size_t times, const embed::Product *task) {
    const auto kernel = wide ? embed::avx512_kernels.product : embed::avxvnni_kernels.product;
    const double begin = embed::now();
    for (size_t time = 0; time < times; time++) kernel(*task);
    return embed::now() - begin;
}
