// What went wrong: a sentence, a hint, and the exit code that says it to other programs. Code 0 is no error.
#pragma once
#include <string>

namespace embed {

enum Code {
    FAULT = 1,
    USAGE = 2,
    INPUT = 3,
    BUNDLE = 4,
    RUNTIME = 5,
    SELF_TEST = 6,
    OUTPUT = 7,
    LISTEN = 8,
    DEVICE = 9
};

struct [[nodiscard]] Error {
    int code = 0;
    std::string message, hint;
    explicit operator bool() const { return code != 0; }
};

inline Error fail(Code code, std::string message, std::string hint = "") {
    return Error{int(code), std::move(message), std::move(hint)};
}

inline constexpr const char *COPY_AGAIN = "copy the whole bundle folder again, or unpack its archive again";
inline constexpr const char *TRY_SELF_TEST = "run --self-test to find the damaged file of the bundle";

}  // namespace embed
