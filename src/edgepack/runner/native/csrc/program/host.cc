#include "program/host.h"

#include <csignal>
#include <cstring>

#include "base/host.h"
#include "program/embed_main.h"

namespace embed {

namespace {

struct Texts {
    std::vector<const char *> starts;
    std::vector<size_t> lengths;
    explicit Texts(const std::vector<std::string_view> &texts) {
        for (std::string_view text : texts) starts.push_back(text.data()), lengths.push_back(text.size());
    }
};

Error failure_of(int code, const std::string &said) {
    size_t end = said.find('\n');
    return {code, said.substr(0, end), end == said.npos ? "" : said.substr(end + 1)};
}

Error no_such_answer(const char *what) {
    return fail(RUNTIME, std::string("the Python of this program gave no ") + what, TRY_SELF_TEST);
}

class CallingHost : public Host {
public:
    explicit CallingHost(const embed_host &host) : host_(host) {}

    Error open_tokenizer(const std::string &path, TokenizerFacts &facts) const override {
        std::string said;
        if (int code = host_.open_tokenizer(path.c_str(), &said)) return failure_of(code, said);
        if (said.size() != sizeof facts) return no_such_answer("tokenizer");
        memcpy(&facts, said.data(), sizeof facts);
        return {};
    }

    Error encode(std::string_view text, const std::string_view *second, size_t max_length,
                 std::vector<int64_t> &ids, std::vector<int64_t> &types) const override {
        std::string said;
        if (int code = host_.encode(text.data(), text.size(), second ? second->data() : nullptr,
                                    second ? second->size() : 0, max_length, &said))
            return failure_of(code, said);
        std::vector<uint32_t> numbers(said.size() / sizeof(uint32_t));
        if (numbers.empty() || numbers.size() % 2 || numbers.size() / 2 > max_length)
            return no_such_answer("tokens");
        memcpy(numbers.data(), said.data(), numbers.size() * sizeof(uint32_t));
        auto middle = numbers.begin() + ptrdiff_t(numbers.size() / 2);
        ids.assign(numbers.begin(), middle);
        types.assign(middle, numbers.end());
        return {};
    }

    Error open_module(const std::string &path, bool &prepares, bool &finishes) const override {
        std::string said;
        if (int code = host_.open_module(path.c_str(), &said)) return failure_of(code, said);
        if (said.size() != 2) return no_such_answer("module");
        prepares = said[0];
        finishes = said[1];
        return {};
    }

    Error prepare(const std::vector<std::string_view> &texts,
                  std::vector<std::string> &prepared) const override {
        Texts asked(texts);
        std::string said;
        if (int code = host_.prepare(asked.starts.data(), asked.lengths.data(), texts.size(), &said))
            return failure_of(code, said);
        size_t at = texts.size() * sizeof(uint64_t);
        for (size_t index = 0; index < texts.size() && at <= said.size(); index++) {
            uint64_t length;
            memcpy(&length, &said[index * sizeof length], sizeof length);
            if (length > said.size() - at) break;
            prepared.push_back(said.substr(at, length));
            at += length;
        }
        return prepared.size() == texts.size() ? Error{} : no_such_answer("texts");
    }

    Error finish(const std::vector<std::string_view> &texts, size_t dimension,
                 float *vectors) const override {
        Texts asked(texts);
        std::string said;
        if (int code = host_.finish(vectors, dimension, asked.starts.data(), asked.lengths.data(),
                                    texts.size(), &said))
            return failure_of(code, said);
        if (said.size() != texts.size() * dimension * sizeof(float)) return no_such_answer("vectors");
        memcpy(vectors, said.data(), said.size());
        return {};
    }

private:
    const embed_host &host_;
};

}  // namespace

}  // namespace embed

extern "C" {

__attribute__((visibility("default"))) void embed_answer(void *answer, const void *bytes, size_t size) {
    static_cast<std::string *>(answer)->assign(static_cast<const char *>(bytes), size);
}

__attribute__((visibility("default"))) int embed_main_with(int count, char **words, const embed_host *host) {
    // Python ignores it: a reader that has gone is to end the program.
    signal(SIGPIPE, SIG_DFL);
    embed::STARTED_BY = new embed::CallingHost(*host);
    return embed_main(count, words);
}

}  // extern "C"
