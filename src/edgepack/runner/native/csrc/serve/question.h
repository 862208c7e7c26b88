// What every kind of request for vectors comes down to, and how each kind of client is told no.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/refusal.h"

namespace embed {

enum class Api { NONE, OPENAI, OLLAMA, OLLAMA_ONE, TEI, TEI_SPARSE, RERANK };

// Texts, or token ids, one of the two.
struct Question {
    Api api = Api::NONE;
    std::vector<std::string> texts;
    std::vector<std::vector<int64_t>> tokens;
    const char *field = "input";  // of the request, that they stand in
    std::string query, prefix;
    size_t dimensions = 0, chunks = 0;  // 0: none are asked for
    bool ranks = false, sparse = false, base64 = false, late = false;
    bool truncate = true;    // whether a text may be cut; else one that fills the model's length is refused
    bool normalize = false;  // vectors are brought to length 1, where the model does not do so
    // Of a ranking.
    std::vector<Json> documents;  // to be shown; empty: they are not
    size_t most = SIZE_MAX;

    size_t size() const { return texts.empty() ? tokens.size() : texts.size(); }
};

// `values`: most values of JSON in a body.
Refusal read_question(Api api, const std::string &body, size_t values, Question &question);
// Status and body of an error, as the clients of an API know it.
int write_refusal(Api api, const Refusal &refusal, std::string &body);

}  // namespace embed
