// Long texts in chunks that end where a paragraph, a sentence or a word does, each with its vector.
#pragma once
#include <cstddef>
#include <vector>

#include "embedder/bundle.h"
#include "tokenizer/tokenizer.h"

namespace embed {

// Bytes of a text, from `start` on, before `end`.
struct Chunk {
    size_t text, start, end;
};

struct ChunkOptions {
    // Of a chunk, at most, special ones and the prefix included.
    size_t tokens = 0;
    // Chunks that fit in the model together are read together, and each vector is pooled of its chunk's
    // tokens alone (late chunking).
    bool late = false;
};

// Chunks of a text after each other: their tokens, with the special ones around all of them, and what is
// behind the last token of each. The first chunk's begin with what is before the text, the last one's end
// with what is behind it.
struct JoinedChunks {
    std::vector<Encoding> rows;
    std::vector<std::vector<size_t>> ends;
};

// A code of 2 where the model cannot read chunks together, or the program cannot.
Error check_late(const Bundle &bundle);

}  // namespace embed
