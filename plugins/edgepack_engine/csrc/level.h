// What the kernels of every level share. Included before a level's target is set, so that nothing of the system is compiled for it.
#pragma once
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.h"
#include "plan.h"

namespace embed {

constexpr float LOWEST = -1e30f, SMALLEST_RANGE = 1e-12f;
constexpr float GELU_TERMS[13] = {
    0.141363785f, -0.0702966526f, 0.0515214205f, -0.0404329486f, 0.0314262286f, -0.0233367383f, 0.016497666f, -0.0109732114f, 0.00616540574f, -0.00291569764f, 0.00200188905f, -0.00151414308f, 0.000492957304f};

}  // namespace embed
