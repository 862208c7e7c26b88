// A request that gets an error for an answer.
#pragma once
#include <string>

namespace embed {

struct Refusal {
    int status = 0;  // 0: it is not refused
    std::string message, param;
    std::string headers;  // lines of their own, e.g. "Retry-After: 1\r\n"
    bool empty = false;   // it has no inputs at all, which Text Embeddings Inference tells apart
    explicit operator bool() const { return status != 0; }
};

inline Refusal refuse(int status, std::string message, std::string param = "", std::string headers = "") {
    return Refusal{status, std::move(message), std::move(param), std::move(headers)};
}

}  // namespace embed
