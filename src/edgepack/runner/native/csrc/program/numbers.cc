#include "program/numbers.h"

#include <cmath>
#include <cstdio>
#include <cstring>

namespace embed {

namespace {

// float16, to the nearest, ties to even; 0x7C00 and its like for what is too large.
uint16_t half(float number) {
    uint32_t bits;
    memcpy(&bits, &number, 4);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude >= 0x477FF000) return uint16_t(sign | 0x7C00);
    if (magnitude < 0x38800000) {
        // Below the smallest normal one: a whole number of 2^-24.
        float scaled;
        memcpy(&scaled, &magnitude, 4);
        return uint16_t(sign | uint32_t(std::nearbyint(std::ldexp(scaled, 24))));
    }
    uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return uint16_t(sign | (rounded - 0x38000000) >> 13);
}

float whole(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    float number = exponent ? std::ldexp(float(1024 + (bits & 1023)), exponent - 25)
                            : std::ldexp(float(bits & 1023), -24);
    return bits & 0x8000 ? -number : number;
}

Error halves(const float *vector, size_t dimension, std::vector<uint16_t> &out) {
    for (size_t index = 0; index < dimension; index++) {
        out.push_back(half(vector[index]));
        if ((out.back() & 0x7C00) == 0x7C00)
            return fail(USAGE, "this model's numbers are too large for f16", "use --dtype f32 or int8");
    }
    return {};
}

// int8 codes and their scale; a vector of zeros has the scale 0.
double codes(const float *vector, size_t dimension, std::vector<int8_t> &out) {
    double largest = 0;
    for (size_t index = 0; index < dimension; index++)
        largest = std::fmax(largest, std::fabs(double(vector[index])));
    double factor = largest > 0 ? 127 / largest : 0;
    for (size_t index = 0; index < dimension; index++)
        out.push_back(int8_t(std::nearbyint(double(vector[index]) * factor)));
    return largest / 127;
}

std::vector<uint8_t> packed_bits(const float *vector, size_t dimension) {
    std::vector<uint8_t> bytes((dimension + 7) / 8);
    for (size_t index = 0; index < dimension; index++)
        if (vector[index] > 0) bytes[index / 8] |= uint8_t(0x80 >> index % 8);
    return bytes;
}

template <class Number, class Value>
void append_list(const char *form, const Number *numbers, size_t count, std::string &out, Value value) {
    char digits[40];
    out += '[';
    for (size_t index = 0; index < count; index++) {
        if (index) out += ',';
        out.append(digits, size_t(snprintf(digits, sizeof digits, form, value(numbers[index]))));
    }
    out += ']';
}

template <class Number> void append_bytes(const std::vector<Number> &numbers, std::string &out) {
    out.append(reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(Number));
}

}  // namespace

size_t row_width(const std::string &type, size_t dimension) {
    return type == "binary" ? (dimension + 7) / 8 : dimension;
}

const char *numpy_name(const std::string &type) {
    return type == "f16" ? "<f2" : type == "int8" ? "|i1" : type == "binary" ? "|u1" : "<f4";
}

Error append_packed(const float *vector, size_t dimension, const std::string &type, std::string &out) {
    if (type == "f16") {
        std::vector<uint16_t> numbers;
        Error error = halves(vector, dimension, numbers);
        append_bytes(numbers, out);
        return error;
    }
    if (type == "int8") {
        std::vector<int8_t> numbers;
        codes(vector, dimension, numbers);
        append_bytes(numbers, out);
    } else if (type == "binary") {
        append_bytes(packed_bits(vector, dimension), out);
    } else {
        out.append(reinterpret_cast<const char *>(vector), dimension * sizeof(float));
    }
    return {};
}

void append_floats(const float *numbers, size_t count, std::string &out) {
    append_list("%.9g", numbers, count, out, [](float number) { return double(number); });
}

Error append_fields(const float *vector, size_t dimension, const std::string &type, std::string &out) {
    out += "\"embedding\":";
    if (type == "f32") {
        append_floats(vector, dimension, out);
    } else if (type == "f16") {
        // Five digits bring every float16 back.
        std::vector<uint16_t> numbers;
        if (Error error = halves(vector, dimension, numbers)) return error;
        append_list("%.5g", numbers.data(), dimension, out,
                    [](uint16_t number) { return double(whole(number)); });
    } else if (type == "int8") {
        std::vector<int8_t> numbers;
        double scale = codes(vector, dimension, numbers);
        append_list("%d", numbers.data(), dimension, out, [](int8_t number) { return int(number); });
        char digits[40];
        snprintf(digits, sizeof digits, ",\"scale\":%.9g", scale);
        out += digits;
    } else {
        auto bytes = packed_bits(vector, dimension);
        append_list("%d", bytes.data(), bytes.size(), out, [](uint8_t number) { return int(number); });
    }
    return {};
}

}  // namespace embed
