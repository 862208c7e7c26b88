#include "serve/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "features/feature.h"
#include "program/numbers.h"

namespace embed {

namespace {

constexpr size_t MOST_CHUNKS = 2048;      // of a request, as inputs
constexpr size_t LEAST_VALUES = 1 << 16;  // of JSON, beside the tokens that a request may have

// Of length 1; zeros stay zeros.
void make_unit(std::vector<float> &vector) {
    double square = 0;
    for (float number : vector) square += double(number) * number;
    if (square > 0)
        for (float &number : vector) number = float(number / std::sqrt(square));
}

void append_base64(const std::vector<float> &vector, std::string &out) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    (void)append_packed(vector.data(), vector.size(), "f32", bytes);
    for (size_t at = 0; at < bytes.size(); at += 3) {
        auto byte = [&](size_t index) { return index < bytes.size() ? uint32_t(uint8_t(bytes[index])) : 0; };
        uint32_t three = byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
        for (size_t digit = 0; digit < 4; digit++)
            out += at + digit > bytes.size() ? '=' : letters[three >> (18 - 6 * digit) & 63];
    }
}

// The C library's way to sort, with what it sorts by.
struct Placed {
    double score;
    size_t index;
};

int compare_placed(const void *first, const void *second) {
    auto one = static_cast<const Placed *>(first), other = static_cast<const Placed *>(second);
    if (one->score != other->score) return one->score > other->score ? -1 : 1;
    return one->index < other->index ? -1 : 1;
}

void append_usage(const Task &task, std::string &out) {
    std::string tokens = std::to_string(task.tokens);
    out += "\"usage\":{\"prompt_tokens\":" + tokens + ",\"total_tokens\":" + tokens + "}}\n";
}

// The best first; of equal ones, that which came first.
void append_ranking(const Task &task, std::string &out) {
    std::vector<Placed> order;
    char digits[32];
    for (double score : task.scores) order.push_back({score, order.size()});
    qsort(order.data(), order.size(), sizeof order[0], compare_placed);
    order.resize(std::min(order.size(), task.question.most));
    for (size_t at = 0; at < order.size(); at++) {
        snprintf(digits, sizeof digits, "%.9g", order[at].score);
        out += (at ? ",{\"index\":" : "{\"index\":") + std::to_string(order[at].index) +
               ",\"relevance_score\":" + digits;
        if (!task.question.documents.empty()) {
            const Json &document = task.question.documents[order[at].index];
            bool whole = document.is(Json::OBJECT);
            out += whole ? ",\"document\":" : ",\"document\":{\"text\":";
            write_json(document, out, 0, false);
            if (!whole) out += '}';
        }
        out += '}';
    }
}

void append_weights(const std::vector<std::pair<uint32_t, float>> &weights, std::string &out) {
    char digits[64];
    out += '[';
    for (size_t at = 0; at < weights.size(); at++) {
        snprintf(digits, sizeof digits, "{\"index\":%u,\"value\":%.9g}", weights[at].first,
                 double(weights[at].second));
        out += (at ? "," : "") + std::string(digits);
    }
    out += ']';
}

}  // namespace

Error ServedModel::open(const Bundle &bundle, const ServeOptions &options) {
    bundle_ = &bundle;
    options_ = &options;
    EmbedOptions embedding;
    embedding.batch_size = options.batch_size;
    embedding.max_length = options.max_length;
    embedding.threads = int(options.threads);
    embedding.allow_cpu = options.allow_cpu;
    embedding.announced = true;
    name_ = bundle.text("model", "name");
    task_ = bundle.text("model", "task");
    const Json *normalize = bundle.manifest.at("model", "normalize"),
               *outputs = bundle.manifest.at("model", "outputs");
    normalized_ = normalize && normalize->truth();
    if (outputs && outputs->is(Json::OBJECT)) {
        const Json *dense = outputs->get("dense"), *of = outputs->at("sparse", "of");
        several_ = true;
        dense_ = dense && dense->truth();
        sparse_ = of && of->text == "vocabulary";
    }
    if (!options.prefix.empty() && !bundle.prompt(options.prefix))
        return fail(USAGE, name_ + " has no " + options.prefix + " prefix",
                    "without a prefix, texts go to the model unchanged");
    if (!task_.empty()) {
        auto open_scorer = feature_with(&Feature::open_scorer);
        if (!open_scorer)
            return fail(BUNDLE, name_ + " makes scores, which this program does not know", COPY_AGAIN);
        if (Error error = open_scorer(bundle, scorer_)) return error;
    }
    if (Error error = embedder_.open(bundle, embedding)) return error;
    Encoding nothing;
    if (Error error = embedder_.encode("", nothing)) return error;
    special_ = nothing.ids;
    return {};
}

Probe ServedModel::probe() const {
    if (task_ == "rank")
        return {"/v1/rerank", "{\"query\": \"a\", \"documents\": [\"a\"]}", "\"relevance_score\":"};
    if (sparse_ && !dense_) return {"/embed_sparse", "{\"inputs\": \"a\"}", "[["};
    return {"/v1/embeddings", "{\"input\": \"a\"}", "\"embedding\":["};
}

// What the bundle's model is not made for.
Refusal ServedModel::require_task(const Question &question) const {
    const char *noun = task_ == "rank"      ? "a reranker"
                       : task_ == "classes" ? "a classifier"
                                            : "an embedding model";
    if (question.sparse && !sparse_)
        return refuse(400,
                      name_ + (several_ ? ": the server offers no weights of its tokens: embed --sparse"
                                        : std::string(" is ") + noun + ", which gives no weights of tokens"));
    if (!question.sparse && several_ && !dense_)
        return refuse(
            400,
            name_ +
                (sparse_
                     ? " is a sparse encoder: weights of tokens are at /embed_sparse"
                     : " gives vectors of tokens, which the server does not offer: embed --multi-vector"));
    if (task_.empty() && question.ranks)
        return refuse(400, name_ + " is an embedding model: vectors are at /v1/embeddings");
    if (task_ == "rank" && !question.ranks)
        return refuse(400, name_ + " is a reranker: scores are at /v1/rerank");
    if (task_ == "classes")
        return refuse(400, name_ + " is a classifier, which the server does not offer: embed --classify");
    return {};
}

Refusal ServedModel::read(Task &task) const {
    Question &question = task.question;
    if (Refusal no = read_question(task.api, task.body, options_->max_tokens + LEAST_VALUES, question))
        return no;
    std::string().swap(task.body);
    if (Refusal no = require_task(question)) return no;
    if (question.dimensions)
        if (Error error = task.cut.open(*bundle_, question.dimensions))
            return refuse(400, error.message + (error.hint.empty() ? "" : "; " + error.hint), "dimensions");
    if (Refusal no = make_rows(task)) return no;
    size_t most = embedder_.max_length();
    for (const Encoding &row : task.rows) task.tokens += row.ids.size();
    if (task.tokens > options_->max_tokens)
        return refuse(
            400,
            std::to_string(task.tokens) + " tokens, " + std::to_string(options_->max_tokens) + " at most",
            question.field);
    // The tokenizer does not say of a text that just fits whether it was cut.
    for (const Encoding &row : task.rows)
        if (!question.truncate && row.ids.size() >= most)
            return refuse(400, "a text must have fewer than " + std::to_string(most) +
                                   " tokens where it may not be truncated");
    task.left = task.rows.size();
    if (question.ranks) task.scores.resize(task.left);
    else if (question.sparse) task.weights.resize(task.left);
    else task.vectors.resize((question.chunks ? task.chunks.size() : task.left) * embedder_.dimension());
    return {};
}

Refusal ServedModel::find_prefix(const Question &question, std::string &prefix) const {
    const std::string &kind = question.prefix.empty() ? options_->prefix : question.prefix;
    if (kind.empty()) return {};
    const Json *found = bundle_->prompt(kind);
    if (!found)
        return refuse(400, name_ + " has no " + kind + " prefix",
                      question.texts.empty() ? question.field : "prefix");
    prefix = found->text;
    return {};
}

Refusal ServedModel::make_rows(Task &task) const {
    const Question &question = task.question;
    std::string prefix;
    if (question.ranks) {
        Error error = scorer_->encode_pairs(embedder_, question.query,
                                            {question.texts.begin(), question.texts.end()}, task.rows);
        return error ? refuse(400, error.message, "prefix") : Refusal{};
    }
    task.rows.resize(question.size());
    for (size_t at = 0; at < question.tokens.size(); at++)
        if (Refusal no = with_special_tokens(question.tokens[at], task.rows[at]))
            return no.param = question.field, no;
    if (!question.tokens.empty() && embedder_.has_module())
        return refuse(400, "this bundle has a module of its own, which takes texts and no token ids",
                      question.field);
    if (!question.tokens.empty()) return {};
    if (Refusal no = find_prefix(question, prefix)) return no;
    if (question.chunks) return make_chunks(task, prefix);
    if (embedder_.has_module()) {
        for (const std::string &text : question.texts) task.prepared.push_back(prefix + text);
        prefix.clear();
        if (Error error = embedder_.prepare(task.prepared)) return refuse(500, error.message);
    }
    const std::vector<std::string> &texts = embedder_.has_module() ? task.prepared : question.texts;
    for (size_t at = 0; at < texts.size(); at++)
        if (Error error = embedder_.encode(prefix + texts[at], task.rows[at]))
            return refuse(500, error.message);
    return {};
}

Refusal ServedModel::make_chunks(Task &task, const std::string &prefix) const {
    const Question &question = task.question;
    std::vector<std::string_view> parts;
    if (embedder_.has_module())
        return refuse(400, "this bundle has a module of its own, which takes whole texts", "chunks");
    if (Error error = question.late ? check_late(*bundle_) : Error{})
        return refuse(400, error.message, "late");
    for (size_t text = 0; text < question.texts.size(); text++) {
        Error error =
            embedder_.split(question.texts[text], prefix, question.chunks, task.chunks, MOST_CHUNKS);
        if (error) return refuse(error.code == USAGE ? 400 : 500, error.message, "chunks");
        if (task.chunks.size() > MOST_CHUNKS)
            return refuse(400, "more than " + std::to_string(MOST_CHUNKS) + " chunks", question.field);
        for (size_t at = parts.size(); at < task.chunks.size(); at++) {
            Chunk &chunk = task.chunks[at];
            chunk.text = text;
            parts.push_back(
                std::string_view(question.texts[text]).substr(chunk.start, chunk.end - chunk.start));
        }
    }
    Error error;
    if (question.late) {
        JoinedChunks joined;
        error = embedder_.join(task.chunks, parts, prefix, joined);
        task.rows.swap(joined.rows);
        task.ends.swap(joined.ends);
    } else {
        task.rows.resize(parts.size());
        for (size_t at = 0; at < parts.size() && !error; at++)
            error = embedder_.encode(prefix + std::string(parts[at]), task.rows[at]);
    }
    return error ? refuse(500, error.message) : Refusal{};
}

Error ServedModel::embed_joined(Task &task, size_t row) const {
    std::vector<float> vectors;
    if (Error error = embedder_.embed_joined({{task.rows[row]}, {task.ends[row]}}, vectors)) return error;
    size_t first = 0;
    for (size_t at = 0; at < row; at++) first += task.ends[at].size();
    std::copy(vectors.begin(), vectors.end(), task.vectors.begin() + ptrdiff_t(first * dimension()));
    return {};
}

// Token ids that come from outside: checked, and with the model's special tokens around them.
Refusal ServedModel::with_special_tokens(const std::vector<int64_t> &ids, Encoding &row) const {
    const Tokenizer &tokenizer = embedder_.tokenizer();
    int64_t size = tokenizer.size();
    if (ids.empty() || std::any_of(ids.begin(), ids.end(), [&](int64_t id) { return id < 0 || id >= size; }))
        return refuse(400, "token ids must be from 0 to " + std::to_string(size - 1) + ", one at least");
    auto middle = special_.begin() + ptrdiff_t(tokenizer.before()),
         end = special_.begin() + ptrdiff_t(tokenizer.special_tokens());
    size_t before = tokenizer.before(), after = size_t(end - middle);
    bool has = ids.size() >= std::max(before, after) && std::equal(special_.begin(), middle, ids.begin()) &&
               std::equal(middle, end, ids.end() - ptrdiff_t(after));
    if (!has) row.ids.assign(special_.begin(), middle);
    row.ids.insert(row.ids.end(), ids.begin(), ids.end());
    if (!has) row.ids.insert(row.ids.end(), middle, end);
    row.types.resize(row.ids.size());
    if (row.ids.size() <= embedder_.max_length()) return {};
    return refuse(400, std::to_string(row.ids.size()) + " tokens with the special ones, " +
                           std::to_string(embedder_.max_length()) + " at most");
}

void ServedModel::keep(Task &task, size_t row, const float *vector) const {
    if (task.question.ranks) {
        std::vector<double> scores;
        scorer_->scores(vector, scores);
        task.scores[row] = scores[0];
    } else if (task.question.sparse) {
        for (uint32_t token = 0; token < dimension(); token++)
            if (vector[token] > 0) task.weights[row].push_back({token, vector[token]});
    } else {
        std::copy(vector, vector + dimension(), task.vectors.begin() + ptrdiff_t(row * dimension()));
    }
}

// What the user's own module makes of the vectors.
Refusal ServedModel::finish(Task &task) const {
    if (task.prepared.empty()) return {};
    Error error = embedder_.finish(task.prepared, task.vectors.data());
    return error ? refuse(500, error.message) : Refusal{};
}

// As short, and as long, as the question asks for.
void ServedModel::shape(const Task &task, const float *vector, std::vector<float> &shaped) const {
    shaped.assign(vector, vector + dimension());
    if (task.cut.dimension) {
        shaped.resize(task.cut.dimension);
        task.cut.place(vector, dimension(), shaped.data());
    } else if (task.question.normalize && !normalized_) {
        make_unit(shaped);
    }
}

void ServedModel::write(Task &task) const {
    const Question &question = task.question;
    std::string &out = task.answer, name;
    std::vector<float> shaped;
    size_t count = question.chunks ? task.chunks.size() : task.rows.size();
    bool openai = question.api == Api::OPENAI;
    write_json_string(name_, name, false);
    if (question.ranks) {
        out = "{\"object\":\"list\",\"model\":" + name + ",\"results\":[";
        append_ranking(task, out);
        out += "],";
        append_usage(task, out);
        // Half a character of a document that is shown.
        (void)without_surrogates(out, "", false);
        return;
    }
    if (question.api == Api::OLLAMA_ONE && !count) return void(out = "{\"embedding\":[]}\n");
    out = openai                            ? "{\"object\":\"list\",\"data\":["
          : question.api == Api::OLLAMA     ? "{\"model\":" + name + ",\"embeddings\":["
          : question.api == Api::OLLAMA_ONE ? "{\"embedding\":"
                                            : "[";
    for (size_t row = 0; row < count; row++) {
        if (row) out += ',';
        if (question.sparse) {
            append_weights(task.weights[row], out);
            continue;
        }
        shape(task, &task.vectors[row * dimension()], shaped);
        if (!openai) {
            append_floats(shaped.data(), shaped.size(), out);
            continue;
        }
        const size_t index = question.chunks ? task.chunks[row].text : row;
        out += "{\"object\":\"embedding\",\"index\":" + std::to_string(index);
        if (question.chunks)
            out += ",\"start\":" + std::to_string(task.chunks[row].start) +
                   ",\"end\":" + std::to_string(task.chunks[row].end);
        out += ",\"embedding\":";
        if (question.base64) out += '"';
        question.base64 ? append_base64(shaped, out) : append_floats(shaped.data(), shaped.size(), out);
        out += question.base64 ? "\"}" : "}";
    }
    if (openai) {
        out += "],\"model\":" + name + ",";
        append_usage(task, out);
    } else if (question.api == Api::OLLAMA) {
        out += "],\"total_duration\":" + std::to_string((long long)(seconds_since(task.start) * 1e9)) +
               ",\"load_duration\":0,\"prompt_eval_count\":" + std::to_string(task.tokens) + "}\n";
    } else {
        out += question.api == Api::OLLAMA_ONE ? "}\n" : "]\n";
    }
}

}  // namespace embed
