// Texts as they come in: bytes made valid UTF-8, or refused.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"

namespace embed {

// What is not UTF-8 becomes U+FFFD, or a code of 3 when `strict`; `where` names the text in the message.
Error decode(std::string_view raw, const std::string &where, bool strict, std::string &text);
// JSON can escape half of a character, which no tokenizer takes: U+FFFD in its place, or a code of 3.
Error without_surrogates(std::string &text, const std::string &where, bool strict);
// Without white space at the ends, as Unicode has it.
std::string_view stripped(std::string_view text);
std::string_view stripped_right(std::string_view text);

}  // namespace embed
