// What may stand on the command line, as the frozen program has it (runner/frozen/program/options.py).
#pragma once
#include <string>
#include <vector>

#include "embedder/embedder.h"
#include "base/error.h"

namespace embed {

struct Options {
    std::vector<std::string> texts, similarity;
    std::string input, text_field, id_field, output_format, output, public_key, dtype = "f32", prefix;
    bool has_input = false, has_output = false, has_id_field = false, has_public_key = false;
    size_t dim = 0, max_length = 0, batch_size = 0, threads = 0;
    bool jsonl = false, strict = false, skip_bad = false, info = false, self_test = false, warmup = false, bench = false, version = false, check = false;
    bool json = false, tokens = false, help = false;
    // Of bundles whose model ranks or classifies.
    std::string rerank;
    bool has_rerank = false, classify = false, pairs = false, features = false;
    // The option that asks for scores; null: none does.
    const char *scores() const { return has_rerank ? "--rerank" : classify ? "--classify" : pairs ? "--pairs" : nullptr; }
    // Of bundles whose model gives more than a vector a text.
    bool sparse = false, multi_vector = false, dense = false;
    const char *outputs() const { return sparse ? "--sparse" : multi_vector ? "--multi-vector" : dense ? "--dense" : nullptr; }
    // Of `embed search`.
    std::string query, queries, index;
    bool search = false, has_queries = false, has_index = false;
    size_t nearest = 10;
    double least = -1;

    Wishes wishes() const { return {batch_size, max_length, dim, int(threads), texts.size() == 1 || !similarity.empty(), prefix}; }
    // Null: standard output.
    const std::string *output_path() const { return has_output ? &output : nullptr; }
    // What is done in the place of embedding, e.g. "self_test"; empty when nothing is.
    std::string instead() const;
};

// The options of a command, as read_words() meets them.
class Grammar {
public:
    virtual ~Grammar() = default;
    // How many values an option takes; -1: there is no such option.
    virtual int values(const std::string &name) const = 0;
    virtual std::string said(const std::string &name) const { return name; }
    virtual Error take(const std::string &name, const std::vector<std::string> &values) = 0;
    // Whether the words that follow no longer matter.
    virtual bool done() const = 0;
};

// Takes words apart as Python's argparse does, from number `at` on; what is no option goes to `texts`. A code of 2.
Error read_words(int count, char **words, int at, Grammar &grammar, std::vector<std::string> &texts);
Error usage(const std::string &message);
// A whole number from 1 to `most`, and one of the words in a list with commas. A code of 2.
Error read_number(const std::string &name, const std::string &word, size_t most, size_t &place);
Error check_choice(const std::string &name, const std::string &word, const char *choices);
std::string quoted(const std::string &word);

// A code of 2 for what makes no sense.
Error parse_options(int count, char **words, Options &options);

}  // namespace embed
