#include "outputs/model_outputs.h"

#include <algorithm>
#include <cmath>

#include "embedder/embedder.h"

namespace embed {

namespace {

// More than any model's tokens, or numbers in a vector: what a damaged or a hostile manifest says is not
// allocated.
constexpr double MOST = 1 << 24;
constexpr size_t LONGEST = 1 << 16;  // tokens that a text is filled up to

// Numbers of the manifest; `sound` turns false for one that cannot be meant.
struct Numbers {
    bool sound = true;

    size_t read(const Json &item) {
        double said = item.is(Json::NUMBER) ? item.number() : -1;
        if (said >= 0 && said <= MOST) return size_t(said);
        sound = false;
        return 0;
    }

    size_t read(const Json &section, const char *name, size_t otherwise) {
        const Json *found = section.get(name);
        return found ? read(*found) : otherwise;
    }

    std::vector<uint32_t> list(const Json &section, const char *name) {
        std::vector<uint32_t> all;
        if (const Json *listed = section.get(name))
            for (const Json &item : listed->items) all.push_back(uint32_t(read(item)));
        return all;
    }
};

bool holds(const std::vector<uint32_t> &ids, int64_t id) {
    return std::find(ids.begin(), ids.end(), uint32_t(id)) != ids.end();
}

ReadOptions read_options_of(const Json *section, Numbers &numbers) {
    ReadOptions side;
    if (!section) return side;
    side.marker = uint32_t(numbers.read(*section, "marker", UINT32_MAX));
    side.expand = uint32_t(numbers.read(*section, "expand", UINT32_MAX));
    side.length = numbers.read(*section, "length", 0);
    side.least = numbers.read(*section, "least", 0);
    numbers.sound &= side.least <= LONGEST;
    side.skip = numbers.list(*section, "skip");
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
void weigh_tokens(const ModelOutputs &given, const Encoding &text, const float *tokens, TextOutputs &made) {
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

Error ModelOutputs::open(const Bundle &bundle) {
    const Json *said = bundle.manifest.at("model", "outputs");
    if (!said || !said->is(Json::OBJECT))
        return fail(BUNDLE, "manifest.json does not say what the model gives (model.outputs)", COPY_AGAIN);
    Numbers numbers;
    if (const Json *found = said->get("dense")) dense = found->truth();
    if (const Json *found = said->get("sparse")) {
        sparse = true;
        of_vocabulary = found->at("of") && found->at("of")->text == "vocabulary";
        vocabulary = numbers.read(*found, "size", 0);
        skip = numbers.list(*found, "skip");
    }
    if (const Json *found = said->get("multi_vector")) {
        width = numbers.read(*found, "dimension", 0);
        first = numbers.read(*found, "first", 0);
        query = read_options_of(found->get("query"), numbers);
        document = read_options_of(found->get("document"), numbers);
    }
    if (!numbers.sound || !(sparse || width) || (of_vocabulary && vocabulary != bundle.dimension))
        return fail(BUNDLE, "manifest.json is damaged: model.outputs", COPY_AGAIN);
    return {};
}

Error Embedder::encode_side(std::string_view text, const ReadOptions &side, Encoding &encoding) const {
    bool marked = side.marker != UINT32_MAX;
    // Without a wish, the side's own length counts, which may be above what other texts are cut to.
    size_t room = (side.length && !(cut_ && max_length_ < side.length) ? side.length : max_length_) - marked;
    if (room <= tokenizer_.special_tokens())
        return fail(USAGE, "--max-length leaves no room for a text beside its special tokens");
    if (Error error = tokenizer_.encode(prefix_ + side.prefix + std::string(text), room, encoding))
        return error;
    if (marked) {
        ptrdiff_t behind = encoding.ids.empty() ? 0 : 1;
        encoding.ids.insert(encoding.ids.begin() + behind, int64_t(side.marker));
        encoding.types.insert(encoding.types.begin() + behind, 0);
    }
    encoding.attended = encoding.ids.size();
    if (side.expand == UINT32_MAX || encoding.ids.size() >= side.least) return {};
    encoding.ids.resize(side.least, int64_t(side.expand));
    encoding.types.resize(side.least, 0);
    if (side.attend) encoding.attended = side.least;
    return {};
}

Error Embedder::embed_outputs(const ModelOutputs &given, const ReadOptions &side,
                              const std::vector<std::string_view> &texts,
                              std::vector<TextOutputs> &made) const {
    std::vector<Encoding> encoded(texts.size());
    for (size_t index = 0; index < texts.size(); index++)
        if (Error error = encode_side(texts[index], side, encoded[index])) return error;
    made.assign(texts.size(), {});
    size_t step = given.each_token();
    return each_batch(encoded, [&](const size_t *chosen, size_t count) -> Error {
        Batch batch = batch_of(encoded, chosen, count);
        std::vector<float> vectors;
        TokenVectors tokens{step, {}};
        if (Error error = encoder_->run(batch, whole_, vectors, &tokens)) return error;
        if (tokens.numbers.size() != batch.rows * batch.length * step)
            return fail(RUNTIME, "the program gives no vectors of tokens", TRY_SELF_TEST);
        for (const std::vector<float> *numbers : {&vectors, &tokens.numbers})
            for (float number : *numbers)
                if (!std::isfinite(number))
                    return fail(RUNTIME, "the model gave numbers that are not finite", TRY_SELF_TEST);
        for (size_t row = 0; row < count; row++) {
            TextOutputs &one = made[chosen[row]];
            const Encoding &text = encoded[chosen[row]];
            const float *vector = &vectors[row * whole_],
                        *own = tokens.numbers.data() + row * batch.length * step;
            if (given.dense) one.vector.assign(vector, vector + whole_);
            if (given.of_vocabulary) weigh_vocabulary(vector, given.vocabulary, one);
            else if (given.sparse) weigh_tokens(given, text, own, one);
            for (size_t at = given.first; given.width && at < text.ids.size(); at++)
                if (!holds(side.skip, text.ids[at]))
                    one.vectors.insert(one.vectors.end(), own + at * step, own + at * step + given.width);
        }
        return {};
    });
}

}  // namespace embed
