#include "outputs/given.h"

#include <algorithm>
#include <cmath>

#include "embedder/embedder.h"

namespace embed {

namespace {

size_t number(const Json &section, const char *name, size_t otherwise) {
    const Json *found = section.get(name);
    return found && found->is(Json::NUMBER) ? size_t(found->number()) : otherwise;
}

std::vector<uint32_t> numbers(const Json &section, const char *name) {
    std::vector<uint32_t> all;
    if (const Json *listed = section.get(name))
        for (const Json &item : listed->items) all.push_back(uint32_t(item.number()));
    return all;
}

bool holds(const std::vector<uint32_t> &ids, int64_t id) { return std::find(ids.begin(), ids.end(), uint32_t(id)) != ids.end(); }

Side side_of(const Json *section) {
    Side side;
    if (!section) return side;
    side.marker = uint32_t(number(*section, "marker", UINT32_MAX));
    side.expand = uint32_t(number(*section, "expand", UINT32_MAX));
    side.length = number(*section, "length", 0);
    side.least = number(*section, "least", 0);
    side.skip = numbers(*section, "skip");
    if (const Json *found = section->get("attend")) side.attend = found->truth();
    if (const Json *found = section->get("prefix")) side.prefix = found->text;
    return side;
}

// The tokens whose weights are above zero.
void weigh_vocabulary(const float *numbers, size_t count, TextOutputs &made) {
    for (size_t id = 0; id < count; id++) {
        if (!(numbers[id] > 0)) continue;
        made.ids.push_back(uint32_t(id));
        made.weights.push_back(numbers[id]);
    }
}

// The same of weights of the text's own tokens: the largest of equal ones.
void weigh_tokens(const Given &given, const Encoding &text, const float *tokens, TextOutputs &made) {
    size_t step = given.each_token();
    for (size_t at = 0; at < text.ids.size(); at++) {
        float weight = tokens[at * step + given.width];
        if (!(weight > 0) || holds(given.skip, text.ids[at])) continue;
        auto place = std::lower_bound(made.ids.begin(), made.ids.end(), uint32_t(text.ids[at]));
        size_t index = size_t(place - made.ids.begin());
        if (place != made.ids.end() && *place == uint32_t(text.ids[at])) {
            made.weights[index] = std::max(made.weights[index], weight);
            continue;
        }
        made.ids.insert(place, uint32_t(text.ids[at]));
        made.weights.insert(made.weights.begin() + ptrdiff_t(index), weight);
    }
}

}  // namespace

Error Given::open(const Bundle &bundle) {
    const Json *said = bundle.manifest.at("model", "outputs");
    if (!said || !said->is(Json::OBJECT)) return fail(BUNDLE, "manifest.json does not say what the model gives (model.outputs)", COPY_AGAIN);
    if (const Json *found = said->get("dense")) dense = found->truth();
    if (const Json *found = said->get("sparse")) {
        sparse = true;
        of_vocabulary = found->at("of") && found->at("of")->text == "vocabulary";
        vocabulary = number(*found, "size", 0);
        skip = numbers(*found, "skip");
    }
    if (const Json *found = said->get("multi_vector")) {
        width = number(*found, "dimension", 0);
        first = number(*found, "first", 0);
        query = side_of(found->get("query"));
        document = side_of(found->get("document"));
    }
    if (!(sparse || width) || (of_vocabulary && vocabulary != bundle.dimension))
        return fail(BUNDLE, "manifest.json is damaged: model.outputs", COPY_AGAIN);
    return {};
}

Error Embedder::encode_side(std::string_view text, const Side &side, Encoding &encoding) const {
    bool marked = side.marker != UINT32_MAX;
    // Without a wish, the side's own length counts, which may be above what other texts are cut to.
    size_t room = (side.length && !(cut_ && max_length_ < side.length) ? side.length : max_length_) - marked;
    if (room <= tokenizer_.special_tokens()) return fail(USAGE, "--max-length leaves no room for a text beside its special tokens");
    tokenizer_.encode(prefix_ + side.prefix + std::string(text), room, encoding);
    if (marked) {
        encoding.ids.insert(encoding.ids.begin() + 1, int64_t(side.marker));
        encoding.types.insert(encoding.types.begin() + 1, 0);
    }
    encoding.attended = encoding.ids.size();
    if (side.expand == UINT32_MAX || encoding.ids.size() >= side.least) return {};
    encoding.ids.resize(side.least, int64_t(side.expand));
    encoding.types.resize(side.least, 0);
    if (side.attend) encoding.attended = side.least;
    return {};
}

Error Embedder::embed_outputs(const Given &given, const Side &side, const std::vector<std::string_view> &texts,
                              std::vector<TextOutputs> &made) const {
    std::vector<Encoding> encoded(texts.size());
    for (size_t index = 0; index < texts.size(); index++)
        if (Error error = encode_side(texts[index], side, encoded[index])) return error;
    made.assign(texts.size(), {});
    size_t step = given.each_token();
    return each_batch(encoded, [&](const size_t *chosen, size_t count) -> Error {
        Batch batch = batch_of(encoded, chosen, count);
        std::vector<float> vectors, tokens;
        if (Error error = session_.run_tokens(batch, whole_, vectors, step, tokens)) return error;
        for (const std::vector<float> *numbers : {&vectors, &tokens})
            for (float number : *numbers)
                if (!std::isfinite(number)) return fail(RUNTIME, "the model gave numbers that are not finite", TRY_SELF_TEST);
        for (size_t row = 0; row < count; row++) {
            TextOutputs &one = made[chosen[row]];
            const Encoding &text = encoded[chosen[row]];
            const float *vector = &vectors[row * whole_], *own = tokens.data() + row * batch.length * step;
            if (given.dense) one.vector.assign(vector, vector + whole_);
            if (given.of_vocabulary) weigh_vocabulary(vector, given.vocabulary, one);
            else if (given.sparse) weigh_tokens(given, text, own, one);
            for (size_t at = given.first; given.width && at < text.ids.size(); at++)
                if (!holds(side.skip, text.ids[at])) one.vectors.insert(one.vectors.end(), own + at * step, own + at * step + given.width);
        }
        return {};
    });
}

}  // namespace embed
