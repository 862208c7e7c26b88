// In the place of ONNX Runtime's core/mlas/lib/erf.cpp: the error function in WebAssembly SIMD.
//
// The same polynomials in the same order, so the same bits; but eight numbers at a time, constants from memory (as parts of
// the code each takes three instructions where it is used), and the minimum that is one instruction on every processor.

#include "mlasi.h"

namespace {

/// In memory, and not const: the compiler is not to know their values.
struct {
    float UpperAbsRange = 3.925f;
    float SplitBoundary = 0.921875f;
    float Small[6] = {-5.99104969e-4f, 4.99339588e-3f, -2.67667342e-2f, 1.12818025e-1f, -3.76124859e-1f, 1.28379151e-1f};
    float Big[7] = {
        1.72948930e-5f, -3.83208680e-4f, 3.88393435e-3f, -2.42545605e-2f, 1.06777847e-1f, 6.34846687e-1f, 1.28717512e-1f};
    float ExpLowerRange = -88.3762626647949f;
    float Log2Reciprocal = 1.44269504088896341f;
    float Log2High = -6.93145752e-1f;
    float Log2Low = -1.42860677e-6f;
    float Exp[7] = {1.38319808e-3f, 8.37550033e-3f, 4.16689515e-2f, 1.66664466e-1f, 4.99999851e-1f, 1.0f, 1.0f};
    float ExpC = 1.25829120e+7f;
} Constants;

constexpr size_t Vectors = 2;

MLAS_FORCEINLINE v128_t Splat(const float& Value)
{
    return wasm_v128_load32_splat(&Value);
}

MLAS_FORCEINLINE v128_t MultiplyAdd(v128_t a, v128_t b, v128_t c)
{
    return wasm_f32x4_add(wasm_f32x4_mul(a, b), c);
}

/// a[0] x^(N-1) + … + a[N-1], of several x.
template <size_t N>
MLAS_FORCEINLINE void Polynomial(const float (&a)[N], const v128_t (&x)[Vectors], v128_t (&Sums)[Vectors])
{
    for (v128_t& Sum : Sums) {
        Sum = Splat(a[0]);
    }
    for (size_t i = 1; i < N; i++) {
        const v128_t Next = Splat(a[i]);
        for (size_t v = 0; v < Vectors; v++) {
            Sums[v] = MultiplyAdd(Sums[v], x[v], Next);
        }
    }
}

MLAS_FORCEINLINE void Erf(v128_t (&Values)[Vectors])
{
    v128_t Sign[Vectors], Abs[Vectors], Square[Vectors], Small[Vectors], Mask[Vectors], Big[Vectors], Whole[Vectors];
    v128_t Exp[Vectors];
    const v128_t NegativeZero = wasm_f32x4_splat(-0.0f);
    for (size_t v = 0; v < Vectors; v++) {
        Sign[v] = wasm_v128_and(Values[v], NegativeZero);
        // What is no number stays none: the first operand is taken where the comparison is false.
        Abs[v] = wasm_f32x4_pmin(wasm_v128_andnot(Values[v], NegativeZero), Splat(Constants.UpperAbsRange));
        Square[v] = wasm_f32x4_mul(Abs[v], Abs[v]);
    }
    Polynomial(Constants.Small, Square, Small);
    for (size_t v = 0; v < Vectors; v++) {
        Mask[v] = wasm_f32x4_gt(Abs[v], Splat(Constants.SplitBoundary));
        Small[v] = wasm_v128_andnot(MultiplyAdd(Small[v], Abs[v], Abs[v]), Mask[v]);
        Abs[v] = wasm_v128_and(Mask[v], Abs[v]);
    }
    Polynomial(Constants.Big, Abs, Big);
    const v128_t C = Splat(Constants.ExpC);
    for (size_t v = 0; v < Vectors; v++) {
        // 1 - exp(-Big)
        Big[v] = wasm_v128_xor(MultiplyAdd(Big[v], Abs[v], Abs[v]), NegativeZero);
        Big[v] = wasm_f32x4_pmax(Big[v], Splat(Constants.ExpLowerRange));
        // C is so large that the sum's last bits are a whole number.
        Whole[v] = MultiplyAdd(Splat(Constants.Log2Reciprocal), Big[v], C);
        const v128_t Rounded = wasm_f32x4_sub(Whole[v], C);
        Big[v] = MultiplyAdd(Rounded, Splat(Constants.Log2High), Big[v]);
        Big[v] = MultiplyAdd(Rounded, Splat(Constants.Log2Low), Big[v]);
    }
    Polynomial(Constants.Exp, Big, Exp);
    for (size_t v = 0; v < Vectors; v++) {
        const v128_t Power = wasm_i32x4_shl(wasm_i32x4_add(Whole[v], wasm_i32x4_const_splat(127)), 23);
        Exp[v] = wasm_f32x4_mul(Exp[v], Power);
        Exp[v] = wasm_f32x4_sub(wasm_f32x4_const_splat(1.0f), Exp[v]);
        Values[v] = wasm_v128_or(wasm_v128_or(Small[v], Exp[v]), Sign[v]);
    }
}

}  // namespace

void MLASCALL MlasErfKernel(const float* Input, float* Output, size_t N)
{
    constexpr size_t Step = 4 * Vectors;
    v128_t Values[Vectors];
    while (N >= Step) {
        for (size_t v = 0; v < Vectors; v++) {
            Values[v] = wasm_v128_load(Input + 4 * v);
        }
        Erf(Values);
        for (size_t v = 0; v < Vectors; v++) {
            wasm_v128_store(Output + 4 * v, Values[v]);
        }
        Input += Step;
        Output += Step;
        N -= Step;
    }
    if (N > 0) {
        float Rest[Step] = {0};
        std::copy_n(Input, N, Rest);
        MlasErfKernel(Rest, Rest, Step);
        std::copy_n(Rest, N, Output);
    }
}

void MLASCALL MlasComputeErf(const float* Input, float* Output, size_t N)
{
    MlasErfKernel(Input, Output, N);
}
