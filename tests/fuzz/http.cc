// Requests of a stranger to the server: in one piece and in many they are read as the same; their bodies are questions, or refused.
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "serve/question.h"
#include "serve/request.h"

namespace {

constexpr size_t LONGEST = 1000;

struct Open final : embed::Gate {
    embed::Refusal admit(const embed::Request &request, uint64_t length) override {
        if (request.path == "/none") return embed::refuse(404, request.path);
        return length > LONGEST ? embed::refuse(413, "too large") : embed::Refusal{};
    }
    embed::Refusal take(size_t size, size_t more) override {
        return size + more > LONGEST ? embed::refuse(413, "too large") : embed::Refusal{};
    }
};

bool is_utf8(const std::string &word) {
    std::string_view text = word;
    for (size_t bad, length; !text.empty(); text.remove_prefix(length))
        if (!(length = embed::valid_sequence(text, bad))) return false;
    return true;
}

void question(const std::string &body) {
    for (embed::Api api : {embed::Api::OPENAI, embed::Api::OLLAMA, embed::Api::OLLAMA_ONE, embed::Api::TEI, embed::Api::TEI_SPARSE, embed::Api::RERANK}) {
        embed::Question question;
        std::string said;
        embed::Refusal no = embed::read_question(api, body, 1000, question);
        if (no) {
            int status = embed::write_refusal(api, no, said);
            if (status < 400 || status > 499 || !is_utf8(said)) abort();
            continue;
        }
        if (!question.texts.empty() && !question.tokens.empty()) abort();
        for (const std::string &text : question.texts)
            if (!is_utf8(text)) abort();  // it would reach the tokenizer
    }
}

// What there is to see of all requests of a connection.
std::string read(const char *data, size_t size, size_t piece) {
    Open gate;
    embed::RequestReader reader(gate);
    std::string seen;
    for (size_t at = 0; at < size;) {
        size_t some = std::min(piece, size - at), used = reader.feed(data + at, some);
        at += used;
        if (reader.state() == embed::RequestReader::BROKEN) break;
        if (reader.state() != embed::RequestReader::WHOLE) {
            if (used != some) abort();  // what is not read would be asked for again, for ever
            continue;
        }
        const embed::Request &request = reader.request;
        seen += std::to_string(request.method) + request.path + "\n" + request.host + "\n" + request.origin + "\n" + request.body + (request.keep ? "+" : "-");
        if (reader.refusal) seen += std::to_string(reader.refusal.status);
        else question(request.body);
        reader.restart();
    }
    reader.end();
    if (reader.refusal.status && (reader.refusal.status < 400 || reader.refusal.status > 501)) abort();
    return seen + std::to_string(reader.refusal.status);
}

}  // namespace

int fuzz_http(const uint8_t *bytes, size_t size) {
    auto data = reinterpret_cast<const char *>(bytes);
    question(std::string(data, size));
    std::string whole = read(data, size, SIZE_MAX);
    for (size_t piece : {1, 7})
        if (read(data, size, piece) != whole) abort();
    return 0;
}
