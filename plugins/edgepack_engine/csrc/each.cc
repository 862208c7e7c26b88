#include "each.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "unfused.h"

namespace embed {

namespace {

// In 64 bits, of sums, products and quotients alone: functions of C libraries differ in the last bit.
double exponential(double number) {
    constexpr double ROUNDING = 6755399441055744.0, HIGH = 6.93147180369123816490e-01, LOW = 1.90821492927058770002e-10;
    number = std::min(std::max(number, -87.0), 88.0);
    const double shifted = number * 1.44269504088896338700 + ROUNDING, whole = shifted - ROUNDING;
    const double rest = (number - whole * HIGH) - whole * LOW;
    double power = 1;
    for (int term = 12; term; term--) power = power * rest / term + 1;
    uint64_t bits, exponent;
    memcpy(&bits, &power, sizeof bits), memcpy(&exponent, &shifted, sizeof exponent);
    bits += exponent << 52;
    memcpy(&power, &bits, sizeof power);
    return power;
}

// Of numbers above zero.
double logarithm(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    const uint64_t shifted = bits - 0x3FE6A09E667F3BCD;  // the root of a half
    const int64_t exponent = int64_t(shifted) >> 52;
    bits -= uint64_t(exponent) << 52;
    memcpy(&number, &bits, sizeof number);
    const double part = (number - 1) / (number + 1), square = part * part;
    double sum = 0;
    for (int term = 21; term > 0; term -= 2) sum = sum * square + 1.0 / term;
    return 2 * part * sum + double(exponent) * 6.93147180559945286227e-01;
}

double sigmoid(double number) { return 1 / (1 + exponential(-number)); }

double tanh_of(double number) {
    const double power = exponential(-2 * std::fabs(number)), size = (1 - power) / (1 + power);
    return number < 0 ? -size : size;
}

// The share of a normal distribution below a number, 7.5e-8 off at most (Abramowitz and Stegun, 7.1.26).
double share_below(double number) {
    const double size = std::fabs(number) * 7.07106781186547524401e-01, part = 1 / (1 + 0.3275911 * size);
    const double sum = ((((1.061405429 * part - 1.453152027) * part + 1.421413741) * part - 0.284496736) * part + 0.254829592) * part;
    const double half = 0.5 * sum * exponential(-size * size);
    return number < 0 ? half : 1 - half;
}

double function_of(uint32_t function, double x, double a, double b) {
    switch (function) {
        case RAISED: return x + a;
        case CLIPPED: return std::min(std::max(x, a), b);
        case LEAKY: return x < 0 ? x * a : x;
        case SHRUNK: return x < -a ? x + b : x > a ? x - b : 0;
        case HARD_SIGMOID: return std::min(std::max(x * a + b, 0.0), 1.0);
        case TANH: return tanh_of(x);
        case SIGMOID: return sigmoid(x);
        case EXACT_GELU: return x * share_below(x);
        case ELU: return b * (x < 0 ? a * (exponential(x) - 1) : x);
        case SOFTPLUS: return std::max(x, 0.0) + logarithm(1 + exponential(-std::fabs(x)));
        case SOFTSIGN: return x / (1 + std::fabs(x));
        case LOG: return logarithm(std::max(x, 1e-30));
        default: return x * a;
    }
}

void shares(const float *from, float *to, size_t width, bool logarithms) {
    const double most = *std::max_element(from, from + width);
    double sum = 0;
    for (size_t at = 0; at < width; at++) sum += exponential(from[at] - most);
    const double log = logarithm(sum);
    for (size_t at = 0; at < width; at++) to[at] = float(logarithms ? from[at] - most - log : exponential(from[at] - most) / sum);
}

}  // namespace

const uint32_t LAST_OPERATION = SHARES;

void compute_each(const Each &task) {
    const Step &step = task.step;
    const size_t width = step.sizes[0];
    const uint32_t kind = step.sizes[1];
    for (size_t row = 0; row < task.rows; row++) {
        const float *from = task.from + row * task.stride, *other = task.other ? task.other + row * task.stride : nullptr;
        float *to = task.to + row * task.stride;
        if (step.operation == SHARES) shares(from, to, width, kind);
        else if (step.operation == ALTER)
            for (size_t at = 0; at < width; at++) to[at] = float(function_of(kind, from[at], step.numbers[0], step.numbers[1]));
        else
            for (size_t at = 0; at < width; at++)
                to[at] = kind == ADDED ? from[at] + other[at] : kind == TIMES ? from[at] * other[at] : from[at] - other[at];
        std::fill(to + width, to + task.stride, 0.0f);
    }
}

}  // namespace embed
