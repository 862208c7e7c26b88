#include "chunks/chunks.h"

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "embedder/embedder.h"
#include "features/feature.h"

namespace embed {

namespace {

constexpr size_t USUAL_BYTES = 4;  // of a token
constexpr size_t SLACK = 32;       // a chunk may miss this part of its greatest length

enum Cut { WORD, SENTENCE, LINE, PARAGRAPH, CUTS };

bool ends_sentence(uint32_t point) {
    return point == '.' || point == '!' || point == '?' || point == 0x2026 || point == 0x61F ||
           point == 0x6D4 || point == 0x964;
}

// Those that no white space follows.
bool ends_full_width_sentence(uint32_t point) {
    return point == 0x3002 || point == 0xFF01 || point == 0xFF1F || point == 0xFF61;
}

bool closes(uint32_t point) {
    return point == '"' || point == '\'' || point == ')' || point == ']' || point == 0xBB ||
           point == 0x2019 || point == 0x201D || point == 0x300D || point == 0x300F || point == 0xFF09;
}

// A place from `at` back where a code point begins.
size_t code_point_at(std::string_view text, size_t at) {
    if (at >= text.size()) return text.size();
    while (at && (uint8_t(text[at]) & 0xC0) == 0x80) at--;
    return at;
}

size_t behind_white_space(std::string_view text, size_t at) {
    for (size_t next = at; next < text.size(); at = next)
        if (!is_white_space(next_code_point(text, next))) break;
    return at;
}

// Where the text from `start` on is best cut, before `end` or in the white space there: the greatest division
// in the second half, else between words, else at `end`.
size_t best_cut(std::string_view text, size_t start, size_t end) {
    size_t found[CUTS] = {}, lines = 0;
    bool stopped = false;
    for (size_t at = start; at < text.size();) {
        const size_t here = at;
        const uint32_t point = next_code_point(text, at);
        if (is_white_space(point)) {
            found[WORD] = at;
            if (stopped) found[SENTENCE] = at;
            if (point == '\n') found[lines++ ? PARAGRAPH : LINE] = at;
            continue;
        }
        if (here >= end) break;
        lines = 0;
        const bool wide = ends_full_width_sentence(point);
        stopped = wide || ends_sentence(point) || (stopped && closes(point));
        if (wide && at <= end) found[SENTENCE] = found[WORD] = at;
    }
    for (int cut = PARAGRAPH; cut > WORD; cut--)
        if (found[cut] > start + (end - start) / 2) return found[cut];
    return found[WORD] ? found[WORD] : end;
}

size_t trimmed(std::string_view text, size_t start, size_t end) {
    return start + stripped_right(text.substr(start, end - start)).size();
}

}  // namespace

Error check_late(const Bundle &bundle) {
    const std::string pooling = bundle.text("model", "pooling");
    if (bundle.manifest.at("runner", "module"))
        return fail(USAGE, "late chunks do not go with the bundle's own module");
    if (pooling != "mean")
        return fail(USAGE, "late chunks require a model with mean pooling; that of " +
                               bundle.text("model", "name") + " is " + pooling);
    if (!feature_with(&Feature::pool_chunks))
        return fail(USAGE, "this program reads each chunk alone: late chunks require edgepack's engine",
                    "a target such as linux-x86-fast has it");
    return {};
}

// Texts of a million bytes are tokenized in pieces, so that time and memory grow with the chunks.
Error Embedder::split(std::string_view text, const std::string &prefix, size_t tokens,
                      std::vector<Chunk> &chunks, size_t most) const {
    Encoding encoding;
    Error failed;
    auto count = [&](size_t start, size_t end) {
        if (!failed)
            failed = tokenizer_.encode(prefix + std::string(text.substr(start, end - start)), tokens + 1,
                                       encoding);
        return encoding.ids.size();
    };
    auto fits = [&](size_t start, size_t end) { return count(start, end) <= tokens; };
    if (tokens > max_length_)
        return fail(USAGE, "chunks of " + std::to_string(tokens) + " tokens: " + std::to_string(max_length_) +
                               " at most");
    if (size_t least = count(0, 0); !failed && tokens <= least)
        return fail(USAGE, "chunks of " + std::to_string(tokens) + " tokens leave no room beside " +
                               std::to_string(least) + " of special tokens and prefix");
    // A word may be one token where its pieces are many.
    if (fits(0, text.size())) {
        chunks.push_back({0, 0, text.size()});
        return failed;
    }
    const size_t step = tokens * USUAL_BYTES;
    for (size_t start = 0; !failed && chunks.size() <= most;) {
        size_t known = start, end = code_point_at(text, start + step);
        while (end < text.size() && fits(start, end)) {
            known = end;
            end = code_point_at(text, start + 2 * (end - start));
        }
        // The whole text is left as it is, the last chunk without white space around it.
        if (end == text.size() && fits(start, trimmed(text, start, end))) {
            chunks.push_back({0, start, trimmed(text, start, end)});
            break;
        }
        if (!start && (start = behind_white_space(text, 0))) continue;
        while (end - known > 1 + (end - start) / SLACK) {
            size_t middle = code_point_at(text, known + (end - known) / 2);
            if (middle <= known) break;
            (fits(start, middle) ? known : end) = middle;
        }
        // One character may be more tokens than a chunk has, which are cut then.
        if (known == start) (void)next_code_point(text, known);
        size_t cut = best_cut(text, start, known);
        if (size_t shorter = trimmed(text, start, cut); shorter > start && fits(start, shorter)) {
            chunks.push_back({0, start, shorter});
        } else {
            chunks.push_back({0, start, known});
            cut = known;
        }
        start = behind_white_space(text, cut);
        if (start == text.size()) break;
    }
    return failed;
}

Error Embedder::embed_chunks(const std::vector<std::string_view> &texts, const ChunkOptions &options,
                             std::vector<Chunk> &chunks, std::vector<float> &vectors) const {
    std::vector<std::string_view> parts;
    for (size_t text = 0; text < texts.size(); text++) {
        size_t first = chunks.size();
        if (Error error = split(texts[text], prefix_, options.tokens, chunks)) return error;
        for (; first < chunks.size(); first++) {
            Chunk &chunk = chunks[first];
            chunk.text = text;
            parts.push_back(texts[text].substr(chunk.start, chunk.end - chunk.start));
        }
    }
    if (!options.late) return embed(parts, vectors);
    JoinedChunks joined;
    if (Error error = join(chunks, parts, prefix_, joined)) return error;
    return embed_joined(joined, vectors);
}

Error Embedder::join(const std::vector<Chunk> &chunks, const std::vector<std::string_view> &parts,
                     const std::string &prefix, JoinedChunks &joined) const {
    const size_t before = tokenizer_.before(), after = tokenizer_.special_tokens() - before;
    for (size_t at = 0; at < parts.size(); at++) {
        Encoding own;
        if (Error error = encode(parts[at], own)) return error;
        const size_t count = own.ids.size() - std::min(own.ids.size(), before + after);
        const bool follows = at && chunks[at - 1].text == chunks[at].text && count &&
                             joined.rows.back().ids.size() + count <= max_length_;
        if (follows) {
            Encoding &all = joined.rows.back();
            auto from = own.ids.begin() + ptrdiff_t(before);
            all.ids.insert(all.ids.end() - ptrdiff_t(after), from, from + ptrdiff_t(count));
            all.types.resize(all.ids.size(), all.types.back());
            joined.ends.back().back() -= after;
        } else {
            if (Error error = encode(prefix + std::string(parts[at]), own)) return error;
            joined.rows.push_back(std::move(own));
            joined.ends.emplace_back();
        }
        joined.ends.back().push_back(joined.rows.back().ids.size());
    }
    return {};
}

Error Embedder::embed_joined(const JoinedChunks &joined, std::vector<float> &vectors) const {
    std::vector<size_t> places;
    size_t end = vectors.size();
    for (const std::vector<size_t> &ends : joined.ends) {
        places.push_back(end);
        end += ends.size() * dimension_;
    }
    vectors.resize(end);
    auto pool = feature_with(&Feature::pool_chunks);
    return each_batch(joined.rows, [&](const size_t *chosen, size_t count) -> Error {
        std::vector<std::vector<size_t>> ends;
        std::vector<float> made;
        for (size_t row = 0; row < count; row++) ends.push_back(joined.ends[chosen[row]]);
        if (Error error = pool(*encoder_, batch_of(joined.rows, chosen, count), ends, whole_, made))
            return error;
        const float *vector = made.data();
        for (size_t row = 0; row < count; row++)
            for (size_t at = 0; at < ends[row].size(); at++, vector += whole_)
                if (Error error =
                        finish_vector(vector, cut_to_, &vectors[places[chosen[row]] + at * dimension_]))
                    return error;
        return {};
    });
}

}  // namespace embed
