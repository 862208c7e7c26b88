// What stands on the command line.
#pragma once
#include "base/error.h"
#include "embedder/embedder.h"
#include "program/option_values.h"

namespace embed {

struct Options : OptionValues {
    Command command = EMBED;
    std::vector<std::string> texts;
    // Of `embed search`: the first of its words.
    std::string query;

    // The option that asks for scores; null: none does.
    const char *scores() const {
        return has_rerank ? "--rerank" : classify ? "--classify" : pairs ? "--pairs" : nullptr;
    }
    // The option that asks for more than a vector a text.
    const char *outputs() const {
        return sparse ? "--sparse" : multi_vector ? "--multi-vector" : dense ? "--dense" : nullptr;
    }
    EmbedOptions embedding() const {
        return {batch_size, max_length, dim,   int(threads), texts.size() == 1 || !similarity.empty(),
                allow_cpu,  false,      prefix};
    }
    // Null: standard output.
    const std::string *output_path() const { return has_output ? &output : nullptr; }
    // What is done in the place of embedding, e.g. "self-test"; empty when nothing is.
    std::string instead() const;
};

// A code of 2 for what makes no sense. `search` and `serve` are commands where they are the first word.
Error parse_options(int count, char **words, Options &options);
// What `embed COMMAND --help` prints.
const char *help_of(Command command);
std::string quoted(const std::string &word);

}  // namespace embed
