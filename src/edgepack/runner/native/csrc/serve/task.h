// A request for vectors, from its body to its answer.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunks/chunks.h"
#include "embedder/embedder.h"
#include "serve/question.h"

namespace embed {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

class Connection;

struct Task {
    // Whose request this is; null where the client has gone. The server's thread alone reads it.
    Connection *connection = nullptr;
    Api api = Api::NONE;
    std::string body;
    Clock::time_point start = Clock::now(), queued;
    // The client has broken off: nobody waits for this.
    std::atomic<bool> gone{false};
    Question question;
    MatryoshkaCut cut;
    // The texts that the user's own module has made of the question's; empty where there is none.
    std::vector<std::string> prepared;
    // Of chunks, where they are asked for, and where those of a row end that are read together.
    std::vector<Chunk> chunks;
    std::vector<std::vector<size_t>> ends;
    std::vector<Encoding> rows;
    // Their indices, the longest first; `next` is a place in it.
    std::vector<size_t> order;
    size_t next = 0, left = 0, tokens = 0;
    bool done = false;
    // What the rows give: numbers each, or weights of tokens.
    std::vector<float> vectors;
    std::vector<double> scores;
    std::vector<std::vector<std::pair<uint32_t, float>>> weights;
    // In the end: the body of the answer, or why there is none.
    Refusal refusal;
    std::string answer;
    // Bytes of its body, and where they are given back: also of a client that has gone, when the last thread
    // is through with it.
    size_t held = 0;
    std::atomic<size_t> *bodies = nullptr;

    ~Task() {
        if (held) *bodies += held;
    }
};

using TaskPointer = std::shared_ptr<Task>;

}  // namespace embed
