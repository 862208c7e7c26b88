// The program of the bundle: what its command line asks for, done.
#pragma once

// The code to exit with. It takes the process for its own: signals, the handler of memory that runs out,
// standard streams; and what it opened is not taken apart.
extern "C" __attribute__((visibility("default"))) int embed_main(int count, char **words);
