#include "serve/question.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace embed {

namespace {

constexpr size_t MAX_INPUTS = 2048;  // OpenAI's own limit
constexpr size_t MOST_PAIRED = 32 << 20;  // bytes of queries: some tokenizers read one with each document
constexpr int VALIDATION = 413;  // Text Embeddings Inference's status for what it finds wrong with a request
constexpr const char *EMPTY = "`inputs` cannot be empty";

Refusal wrong(std::string message, const char *param = "") { return refuse(400, std::move(message), param); }

bool is_whole(const Json &value) {
    return value.is(Json::NUMBER) && value.text.find_first_not_of("-0123456789") == std::string::npos;
}

bool are_ids(const Json &list) {
    return list.is(Json::ARRAY) && std::all_of(list.items.begin(), list.items.end(), is_whole);
}

bool are_texts(const std::vector<Json> &items) {
    return std::all_of(items.begin(), items.end(), [](const Json &item) { return item.is(Json::STRING); });
}

// Left out, null, 0, an empty text or an empty list: to Ollama's clients, all the same.
bool is_nothing(const Json *value) {
    return !value || value->is(Json::NONE) ||
           (value->is(Json::NUMBER)
                ? value->number() == 0
                : value->text.empty() && value->items.empty() && !value->is(Json::OBJECT));
}

std::vector<int64_t> ids_of(const Json &list) {
    std::vector<int64_t> ids;
    for (const Json &item : list.items) ids.push_back(strtoll(item.text.c_str(), nullptr, 10));
    return ids;
}

// A number above 0; null, or none, leaves the place as it is.
Refusal read_count(const Json &asked, const char *name, size_t &place) {
    const Json *said = asked.get(name);
    if (!said || said->is(Json::NONE)) return {};
    long long number = is_whole(*said) ? strtoll(said->text.c_str(), nullptr, 10) : 0;
    if (number < 1) return wrong(std::string(name) + " must be a positive integer", name);
    place = size_t(std::min<unsigned long long>((unsigned long long)number, SIZE_MAX));
    return {};
}

Refusal read_flag(const Json &asked, const char *name, bool &place) {
    const Json *said = asked.get(name);
    if (!said || said->is(Json::NONE)) return {};
    if (!said->is(Json::TRUTH)) return wrong(std::string(name) + " must be true or false", name);
    place = said->truth();
    return {};
}

Refusal read_choice(const Json &asked, const char *name, const std::vector<const char *> &values,
                    std::string &place) {
    const Json *said = asked.get(name);
    if (!said || said->is(Json::NONE)) return {};
    std::string listed;
    for (const char *value : values) {
        if (said->is(Json::STRING) && said->text == value) return place = value, Refusal{};
        listed += (listed.empty() ? "" : ", ") + std::string(value);
    }
    return wrong(std::string(name) + " must be one of " + listed, name);
}

Refusal read_input(const Json *given, Question &question) {
    std::string field = question.field;
    if (given && given->is(Json::STRING)) {
        question.texts.push_back(given->text);
    } else if (!given || !given->is(Json::ARRAY)) {
        return wrong(field + " must be a string, or a list of strings or of token ids", question.field);
    } else if (are_texts(given->items)) {
        for (const Json &item : given->items) question.texts.push_back(item.text);
    } else if (are_ids(*given)) {
        question.tokens.push_back(ids_of(*given));
    } else {
        for (const Json &item : given->items)
            if (!are_ids(item) || item.items.empty())
                return wrong(field + " must be all strings, or all token ids, none empty", question.field);
        for (const Json &item : given->items) question.tokens.push_back(ids_of(item));
    }
    for (std::string &text : question.texts) (void)without_surrogates(text, "", false);
    if (question.size() > MAX_INPUTS)
        return wrong(field + " has " + std::to_string(question.size()) + " entries; at most " +
                         std::to_string(MAX_INPUTS) + " are allowed",
                     question.field);
    if (!question.prefix.empty() && !question.tokens.empty())
        return wrong("prefix applies to texts, not to token ids", "prefix");
    return {};
}

Refusal read_openai(const Json &asked, Question &question) {
    std::string format;
    if (Refusal no = read_choice(asked, "encoding_format", {"float", "base64"}, format)) return no;
    if (Refusal no = read_choice(asked, "prefix", {"query", "passage"}, question.prefix)) return no;
    if (Refusal no = read_count(asked, "dimensions", question.dimensions)) return no;
    if (Refusal no = read_count(asked, "chunks", question.chunks)) return no;
    if (Refusal no = read_flag(asked, "late", question.late)) return no;
    question.base64 = format == "base64";
    if (Refusal no = read_input(asked.get("input"), question)) return no;
    if (question.chunks && !question.tokens.empty())
        return wrong("chunks are of texts, not of token ids", "chunks");
    if (question.late && !question.chunks) return wrong("late requires chunks", "late");
    return question.size() ? Refusal{}
                           : wrong("input must be a string, or a list of strings or of token ids", "input");
}

// Of nothing there are no vectors, which is no error.
Refusal read_ollama(const Json &asked, Question &question) {
    const Json *given = asked.get("input");
    question.normalize = true;
    if (given && given->is(Json::ARRAY) && !are_texts(given->items)) return wrong("invalid input type");
    if (Refusal no = read_flag(asked, "truncate", question.truncate)) return no;
    if (!is_nothing(asked.get("dimensions")))
        if (Refusal no = read_count(asked, "dimensions", question.dimensions)) return no;
    return is_nothing(given) ? Refusal{} : read_input(given, question);
}

Refusal read_ollama_one(const Json &asked, Question &question) {
    const Json *prompt = asked.get("prompt");
    question.field = "prompt";
    if (is_nothing(prompt)) return {};
    return prompt->is(Json::STRING) ? read_input(prompt, question) : wrong("prompt must be a string");
}

Refusal read_tei(const Json &asked, Question &question) {
    const Json *given = asked.get("inputs");
    auto is_blank = [](const Json &item) { return item.is(Json::STRING) && item.text.empty(); };
    question.field = "inputs";
    question.normalize = true;
    if (given && given->is(Json::ARRAY) && given->items.empty()) {
        Refusal no = wrong(EMPTY);
        no.empty = true;
        return no;
    }
    if (given && (is_blank(*given) || std::any_of(given->items.begin(), given->items.end(), is_blank)))
        return wrong(EMPTY);
    std::string side;
    if (Refusal no = read_choice(asked, "truncation_direction", {"Left", "Right", "left", "right"}, side))
        return no;
    if (side == "Left" || side == "left")
        return wrong("texts are cut at their end alone: `truncation_direction` is Right");
    if (Refusal no = read_choice(asked, "prompt_name", {"query", "passage"}, question.prefix)) return no;
    if (Refusal no = read_flag(asked, "truncate", question.truncate)) return no;
    if (Refusal no = read_flag(asked, "normalize", question.normalize)) return no;
    if (Refusal no = read_count(asked, "dimensions", question.dimensions)) return no;
    return read_input(given, question);
}

Refusal read_rerank(const Json &asked, Question &question) {
    const Json *query = asked.get("query"), *given = asked.get("documents");
    question.field = "documents";
    question.ranks = true;
    if (!query || !query->is(Json::STRING)) return wrong("query must be a string", "query");
    if (!given || !given->is(Json::ARRAY) || given->items.empty())
        return wrong("documents must be a list of strings, one at least", "documents");
    if (query->text.size() * given->items.size() > MOST_PAIRED)
        return wrong("query is too long for so many documents", "query");
    Json texts;
    texts.kind = Json::ARRAY;
    for (const Json &item : given->items) {
        const Json *text = item.is(Json::OBJECT) ? item.get("text") : &item;
        if (!text || !text->is(Json::STRING))
            return wrong("documents must be strings, or objects with a text", "documents");
        texts.items.push_back(*text);
    }
    if (Refusal no = read_count(asked, "top_n", question.most)) return no;
    bool shown = false;
    if (Refusal no = read_flag(asked, "return_documents", shown)) return no;
    if (Refusal no = read_input(&texts, question)) return no;
    if (shown) question.documents = given->items;
    question.query = query->text;
    (void)without_surrogates(question.query, "", false);
    return {};
}

Refusal read_asked(const std::string &body, size_t values, Json &asked) {
    std::string text, message;
    size_t position = 0;
    if (Error error = decode(body, "it", true, text)) return wrong("the body is not JSON: " + error.message);
    if (!parse_json(text, asked, message, position, values))
        return wrong("the body is not JSON: " + message + " at character " + std::to_string(position + 1));
    return asked.is(Json::OBJECT) ? Refusal{} : wrong("the body must be a JSON object");
}

// What an error of Text Embeddings Inference is called.
const char *kind_of(int status) {
    switch (status) {
        case 400: return "Empty";
        case 422: return "Tokenizer";
        case 424: return "Backend";
        case 429: return "Overloaded";
        case 503: return "Unhealthy";
        default: return "Validation";
    }
}

}  // namespace

Refusal read_question(Api api, const std::string &body, size_t values, Question &question) {
    Json asked;
    question.api = api;
    question.sparse = api == Api::TEI_SPARSE;
    if (Refusal no = read_asked(body, values, asked)) {
        if (api == Api::TEI || api == Api::TEI_SPARSE) no.status = 422;
        return no;
    }
    switch (api) {
        case Api::OLLAMA: return read_ollama(asked, question);
        case Api::OLLAMA_ONE: return read_ollama_one(asked, question);
        case Api::TEI:
        case Api::TEI_SPARSE: return read_tei(asked, question);
        case Api::RERANK: return read_rerank(asked, question);
        default: return read_openai(asked, question);
    }
}

int write_refusal(Api api, const Refusal &refusal, std::string &body) {
    int status = refusal.status;
    bool tei = api == Api::TEI || api == Api::TEI_SPARSE;
    if (tei && status == 400 && !refusal.empty) status = VALIDATION;
    if (tei && status == 500) status = 424;
    std::string message;
    // A path may have any bytes.
    (void)decode(refusal.message, "", false, message);
    bool openai = !tei && api != Api::OLLAMA && api != Api::OLLAMA_ONE;
    body = openai ? "{\"error\": {\"message\": " : "{\"error\": ";
    write_json_string(message, body, false);
    if (tei) body += std::string(", \"error_type\": \"") + kind_of(status) + "\"";
    if (openai) {
        body += std::string(", \"type\": \"") + (status < 500 ? "invalid_request_error" : "server_error") +
                "\", \"param\": ";
        if (refusal.param.empty()) body += "null";
        else write_json_string(refusal.param, body, false);
        body += ", \"code\": null}";
    }
    body += "}\n";
    return status;
}

}  // namespace embed
