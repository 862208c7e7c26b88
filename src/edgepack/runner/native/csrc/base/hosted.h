// Whether a host may start this program. One for a host is compiled with another form of this file
// (sources.py); in all others, what a host would give is left out.
#pragma once

namespace embed {

inline constexpr bool HOSTED = false;

}  // namespace embed
