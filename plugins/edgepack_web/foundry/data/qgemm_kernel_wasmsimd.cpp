// In the place of ONNX Runtime's core/mlas/lib/qgemm_kernel_wasmsimd.cpp: the product of 8-bit matrices in WebAssembly SIMD.
//
// Upstream's kernel makes one row at a time, so that each 16 weights are loaded and widened for 16 products; this one makes
// four, and keeps weights as bytes: two are loaded and widened where they are multiplied. Sums are of integers, so the
// results are the same bits.

#include "mlasi.h"
#include "qgemm.h"

struct MLAS_GEMM_U8X8_KERNEL_WASMSIMD {
    typedef int16_t PackedAType;
    typedef uint8_t PackedBType;
    typedef uint8_t OffsetAType;
    typedef int8_t OffsetBType;

    static constexpr size_t PackedK = 2;
    // A panel of B is 16 kB of 32 that the smallest first-level caches have. Sums of a column's pairs are of 16 bits: K is 256 at most.
    static constexpr MLAS_GEMM_QUANT_STRIDES Strides{24, 64, 256};
    static constexpr MLAS_GEMM_QUANT_STRIDES PackedStrides{24, 256, 256};
};

constexpr size_t MLAS_GEMM_U8X8_KERNEL_WASMSIMD::PackedK;
constexpr MLAS_GEMM_QUANT_STRIDES MLAS_GEMM_U8X8_KERNEL_WASMSIMD::Strides;
constexpr MLAS_GEMM_QUANT_STRIDES MLAS_GEMM_U8X8_KERNEL_WASMSIMD::PackedStrides;

namespace {

using Kernel = MLAS_GEMM_U8X8_KERNEL_WASMSIMD;

constexpr size_t Columns = 8;

MLAS_FORCEINLINE int32_t SumOfLanes(v128_t Words)
{
    v128_t Sums = wasm_i32x4_extadd_pairwise_i16x8(Words);
    Sums = wasm_i32x4_add(Sums, wasm_i32x4_shuffle(Sums, Sums, 2, 3, 2, 3));
    Sums = wasm_i32x4_add(Sums, wasm_i32x4_shuffle(Sums, Sums, 1, 0, 1, 0));
    return wasm_i32x4_extract_lane(Sums, 0);
}

/// Two rows of eight columns: their bytes by turns, as signed ones.
MLAS_FORCEINLINE v128_t PackPair(Kernel::PackedBType* D, v128_t Row0, v128_t Row1, v128_t BitFlip, v128_t ColumnSums)
{
    v128_t Bytes = wasm_i8x16_shuffle(Row0, Row1, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    Bytes = wasm_v128_xor(Bytes, BitFlip);
    wasm_v128_store(D, Bytes);
    return wasm_i16x8_add(ColumnSums, wasm_i16x8_extadd_pairwise_i8x16(Bytes));
}

MLAS_FORCEINLINE v128_t LoadBytes(const uint8_t* From, size_t Count, v128_t Padding)
{
    if (Count >= Columns) {
        return wasm_v128_load64_zero(From);
    }
    uint8_t Padded[16];
    wasm_v128_store(Padded, Padding);
    for (size_t n = 0; n < Count; n++) {
        Padded[n] = From[n];
    }
    return wasm_v128_load64_zero(Padded);
}

/// What a block of eight columns begins with: what zero points make of the sums of rows and columns.
MLAS_FORCEINLINE v128_t Beginning(int32_t RowSum, const int32_t* ColumnSums, const int32_t* ZeroPointB)
{
    v128_t Row = wasm_i32x4_splat(RowSum);
    if (ZeroPointB != nullptr) {
        Row = wasm_i32x4_mul(Row, wasm_v128_load(ZeroPointB));
    }
    return wasm_i32x4_add(Row, wasm_v128_load(ColumnSums));
}

MLAS_FORCEINLINE void Store(int32_t* C, v128_t Low, v128_t High, size_t Count, bool ZeroMode)
{
    if (Count >= Columns) {
        if (!ZeroMode) {
            Low = wasm_i32x4_add(Low, wasm_v128_load(&C[0]));
            High = wasm_i32x4_add(High, wasm_v128_load(&C[4]));
        }
        wasm_v128_store(&C[0], Low);
        wasm_v128_store(&C[4], High);
        return;
    }
    int32_t Values[Columns];
    wasm_v128_store(&Values[0], Low);
    wasm_v128_store(&Values[4], High);
    for (size_t n = 0; n < Count; n++) {
        C[n] = ZeroMode ? Values[n] : C[n] + Values[n];
    }
}

template <size_t Rows>
size_t MultiplyRows(
    const int16_t* A,
    const uint8_t* B,
    int32_t* C,
    size_t PackedCountK,
    size_t CountN,
    size_t ldc,
    const int32_t* RowSums,
    const int32_t* ColumnSums,
    const int32_t* ZeroPointB,
    bool ZeroMode
    )
{
    const size_t RowOfA = PackedCountK * Kernel::PackedK;
    for (size_t n = 0; n < CountN; n += Columns) {
        v128_t Low[Rows], High[Rows];
        const int32_t* ZeroPoints = ZeroPointB == nullptr ? nullptr : ZeroPointB + n;
        for (size_t r = 0; r < Rows; r++) {
            Low[r] = Beginning(RowSums[r], ColumnSums + n, ZeroPoints);
            High[r] = Beginning(RowSums[r], ColumnSums + n + 4, ZeroPoints == nullptr ? nullptr : ZeroPoints + 4);
        }
        const int16_t* a = A;
        for (size_t k = PackedCountK; k > 0; k--) {
            const v128_t Weights0 = wasm_i16x8_load8x8(B);
            const v128_t Weights1 = wasm_i16x8_load8x8(B + 8);
            for (size_t r = 0; r < Rows; r++) {
                const v128_t Pair = wasm_v128_load32_splat(a + r * RowOfA);
                Low[r] = wasm_i32x4_add(Low[r], wasm_i32x4_dot_i16x8(Weights0, Pair));
                High[r] = wasm_i32x4_add(High[r], wasm_i32x4_dot_i16x8(Weights1, Pair));
            }
            a += Kernel::PackedK;
            B += Kernel::PackedK * Columns;
        }
        for (size_t r = 0; r < Rows; r++) {
            Store(C + r * ldc + n, Low[r], High[r], CountN - n, ZeroMode);
        }
    }
    return Rows;
}

}  // namespace

template <>
MLAS_FORCEINLINE int32_t MlasGemmQuantFixupZeroPointB<Kernel>(int32_t ZeroPointB, bool BIsSigned)
{
    return BIsSigned ? ZeroPointB : Kernel::OffsetBType(ZeroPointB ^ 0x80);
}

template <>
void MlasGemmQuantCopyPackA<Kernel>(
    Kernel::PackedAType* D,
    const uint8_t* A,
    size_t lda,
    size_t CountM,
    size_t CountK,
    int32_t* RowSumBuffer,
    bool AIsSigned
    )
{
    MLAS_UNREFERENCED_PARAMETER(AIsSigned);
    for (size_t m = 0; m < CountM; m++) {
        const uint8_t* a = A + m * lda;
        v128_t Sums = wasm_i64x2_const(0, 0);
        size_t k = CountK;
        for (; k >= 8; k -= 8, a += 8, D += 8) {
            const v128_t Words = wasm_u16x8_load8x8(a);
            // A lane sums 32 bytes of the 256: 13 bits.
            Sums = wasm_i16x8_add(Sums, Words);
            wasm_v128_store(D, Words);
        }
        int32_t Sum = SumOfLanes(Sums);
        for (; k > 0; k--) {
            Sum += *a;
            *D++ = *a++;
        }
        if (CountK % Kernel::PackedK != 0) {
            *D++ = 0;
        }
        RowSumBuffer[m] = Sum;
    }
}

template <>
void MlasGemmQuantCopyPackB<Kernel>(
    Kernel::PackedBType* D,
    const uint8_t* B,
    size_t ldb,
    size_t CountN,
    size_t CountK,
    int32_t* ColumnSumBuffer,
    bool BIsSigned
    )
{
    const v128_t BitFlip = wasm_i8x16_splat(BIsSigned ? 0 : -128);
    for (size_t n = 0; n < CountN; n += Columns) {
        const size_t Count = CountN - n;
        const uint8_t* b = B + n;
        v128_t Sums = wasm_i64x2_const(0, 0);
        size_t k = CountK;
        for (; k >= Kernel::PackedK; k -= Kernel::PackedK) {
            const v128_t Row0 = LoadBytes(b, Count, BitFlip);
            const v128_t Row1 = LoadBytes(b + ldb, Count, BitFlip);
            Sums = PackPair(D, Row0, Row1, BitFlip, Sums);
            b += ldb * Kernel::PackedK;
            D += Kernel::PackedK * Columns;
        }
        if (k > 0) {
            Sums = PackPair(D, LoadBytes(b, Count, BitFlip), BitFlip, BitFlip, Sums);
            D += Kernel::PackedK * Columns;
        }
        wasm_v128_store(&ColumnSumBuffer[n], wasm_i32x4_extend_low_i16x8(Sums));
        wasm_v128_store(&ColumnSumBuffer[n + 4], wasm_i32x4_extend_high_i16x8(Sums));
    }
}

template <>
size_t MlasGemmQuantKernel<Kernel>(
    const Kernel::PackedAType* A,
    const Kernel::PackedBType* B,
    int32_t* C,
    size_t PackedCountK,
    size_t CountM,
    size_t CountN,
    size_t ldc,
    const int32_t* RowSumBuffer,
    const int32_t* ColumnSumBuffer,
    const int32_t* ZeroPointB,
    bool ZeroMode
    )
{
    auto* Multiply = CountM >= 4 ? MultiplyRows<4> : CountM >= 2 ? MultiplyRows<2> : MultiplyRows<1>;
    return Multiply(A, B, C, PackedCountK, CountN, ldc, RowSumBuffer, ColumnSumBuffer, ZeroPointB, ZeroMode);
}

const MLAS_GEMM_QUANT_DISPATCH MlasGemmU8X8DispatchWasmSimd = {
    MlasGemmQuantOperation<Kernel>,
    MlasGemmQuantPackedOperation<Kernel>,
    MlasGemmQuantCopyPackB<Kernel>,
    Kernel::PackedK,
    Kernel::PackedStrides.K,
    4  // multiple of kernel stride M
};
