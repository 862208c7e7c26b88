#include "program/options.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace embed {

namespace {

enum Command { EMBED = 1, SEARCH = 2, BOTH = 3 };

// Where an option's value goes, and what says that it was given. Without either, it is taken and does nothing.
struct Known {
    const char *name;
    int command;
    bool Options::*given = nullptr;
    std::string Options::*text = nullptr;
    size_t Options::*number = nullptr;
    const char *choices = nullptr;

    bool is(const char *other) const { return strcmp(name, other) == 0; }
    int values() const { return is("--similarity") ? 2 : text || number || is("--min"); }
    bool is_instead() const { return is("--similarity") || is("--info") || is("--check") || is("--self-test") || is("--warmup") || is("--bench") || is("--version"); }
};

constexpr Known KNOWN[] = {
    {"--input", EMBED, &Options::has_input, &Options::input},
    {"--jsonl", BOTH, &Options::jsonl},
    {"--text-field", BOTH, nullptr, &Options::text_field},
    {"--id-field", EMBED, &Options::has_id_field, &Options::id_field},
    {"--strict", BOTH, &Options::strict},
    {"--skip-bad", BOTH, &Options::skip_bad},
    {"--allow-cpu", BOTH, &Options::allow_cpu},
    {"--require-signature", BOTH, &Options::has_public_key, &Options::public_key},
    {"--out", EMBED, nullptr, &Options::output_format, nullptr, "json, jsonl, npy, npz, raw, table"},
    {"--output", EMBED, &Options::has_output, &Options::output},
    {"--dtype", EMBED, nullptr, &Options::dtype, nullptr, "f32, f16, int8, binary"},
    {"--dim", BOTH, nullptr, nullptr, &Options::dim},
    {"--rerank", EMBED, &Options::has_rerank, &Options::rerank},
    {"--classify", EMBED, &Options::classify},
    {"--pairs", EMBED, &Options::pairs},
    {"--sparse", EMBED, &Options::sparse},
    {"--multi-vector", EMBED, &Options::multi_vector},
    {"--dense", EMBED, &Options::dense},
    // Not in the help: the vectors that the last layer of such a model takes, for whoever measures them.
    {"--features", EMBED, &Options::features},
    {"--prefix", EMBED, nullptr, &Options::prefix, nullptr, "query, passage"},
    {"--max-length", BOTH, nullptr, nullptr, &Options::max_length},
    {"--batch-size", BOTH, nullptr, nullptr, &Options::batch_size},
    {"--threads", BOTH, nullptr, nullptr, &Options::threads},
    {"--similarity", EMBED},
    {"--info", EMBED, &Options::info},
    {"--check", EMBED, &Options::check},
    {"--self-test", EMBED, &Options::self_test},
    {"--warmup", EMBED, &Options::warmup},
    {"--bench", EMBED, &Options::bench},
    {"--version", EMBED, &Options::version},
    {"--json", BOTH, &Options::json},
    {"--debug", BOTH},
    // Not in the help: what the tokenizer makes of texts, for whoever looks into it.
    {"--tokens", EMBED, &Options::tokens},
    {"--help", BOTH, &Options::help},
    {"-h", BOTH, &Options::help},
    {"-k", SEARCH, nullptr, nullptr, &Options::nearest},
    {"--nearest", SEARCH, nullptr, nullptr, &Options::nearest},
    {"--min", SEARCH},
    {"--queries", SEARCH, &Options::has_queries, &Options::queries},
    {"--index", SEARCH, &Options::has_index, &Options::index},
};

constexpr const char *LISTS = "see embed --help";

// Otherwise a text: a number or a dash alone, and what has a space in it.
bool is_option(const std::string &word) {
    bool negative = word.size() > 1 && strspn(word.c_str() + 1, "0123456789.") == word.size() - 1;
    return word.size() > 1 && word[0] == '-' && !negative && (word.find(' ') == std::string::npos || word.find('=') != std::string::npos);
}

// As it stands in messages.
std::string said(const Known &option) { return option.number == &Options::nearest ? "-k/--nearest" : option.name; }

Error set_cosine(const std::string &name, const std::string &word, double &place) {
    char *end = nullptr;
    bool plain = !word.empty() && strspn(word.c_str(), "0123456789.+-eE") == word.size();
    place = plain ? strtod(word.c_str(), &end) : 2;
    if (!plain || *end || !(place >= -1 && place <= 1))
        return usage("argument " + name + ": " + quoted(word) + " is not a number from -1 to 1");
    return {};
}

Error set(const Known &option, const std::vector<std::string> &values, Options &options) {
    if (option.choices)
        if (Error error = check_choice(said(option), values[0], option.choices)) return error;
    if (option.given) options.*option.given = true;
    if (option.text) options.*option.text = values[0];
    if (option.number) return read_number(said(option), values[0], 65535, options.*option.number);
    if (option.is("--min")) return set_cosine(option.name, values[0], options.least);
    if (option.is("--similarity")) options.similarity = values;
    if (option.is("--warmup")) options.self_test = true;  // a processor needs no more
    return {};
}

std::string flag(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return "--" + name;
}

// What does not go together of what is said of the input.
Error check_reading(const Options &options) {
    if ((!options.text_field.empty() || !options.id_field.empty()) && !options.jsonl)
        return fail(USAGE, flag(options.text_field.empty() ? "id_field" : "text_field") + " requires --jsonl");
    if (options.skip_bad && !options.jsonl && !options.strict)
        return fail(USAGE, "--skip-bad requires --jsonl or --strict", "in other input, no line can be bad");
    return {};
}

// Combinations that make no sense.
Error check(const Options &options) {
    std::string instead = options.instead(), reading, shaping;
    const std::pair<bool, const char *> readings[] = {{options.has_input, "input"}, {options.jsonl, "jsonl"},
                                                      {!options.text_field.empty(), "text_field"},
                                                      {!options.id_field.empty(), "id_field"}, {options.skip_bad, "skip_bad"}};
    for (auto [given, name] : readings)
        if (given && reading.empty()) reading = name;
    const std::pair<bool, const char *> shapings[] = {{!options.prefix.empty(), "prefix"}, {options.max_length > 0, "max_length"},
                                                      {options.dim > 0, "dim"}};
    for (auto [given, name] : shapings)
        if (given && shaping.empty()) shaping = name;
    if (!instead.empty() && (!options.texts.empty() || !reading.empty()))
        return fail(USAGE, flag(instead) + " takes no texts to embed");
    if (!instead.empty() && (!options.output_format.empty() || options.dtype != "f32"))
        return fail(USAGE, flag(instead) + " writes no vectors: --out and --dtype do not apply");
    if (!instead.empty() && instead != "similarity" && !shaping.empty())
        return fail(USAGE, flag(shaping) + " cannot be used with " + flag(instead));
    if (options.json && instead != "info" && instead != "check" && instead != "self_test" && instead != "bench")
        return fail(USAGE, "--json requires --info, --check, --self-test or --bench", "for vectors as JSON: --out json");
    if (!options.texts.empty() && !reading.empty())
        return fail(USAGE, "texts on the command line cannot be used with " + flag(reading));
    if (Error error = check_reading(options)) return error;
    if (options.output_format == "table" && options.dtype != "f32")
        return fail(USAGE, "a table shows f32 only: --dtype does not apply");
    if (options.id_field == "embedding") return fail(USAGE, "--id-field cannot be \"embedding\": the vector has that name");
    return {};
}

// The words of `embed search` are its query and its file.
Error check_search(Options &options) {
    std::vector<std::string> words;
    words.swap(options.texts);
    if (!options.has_queries) {
        if (words.empty()) return fail(USAGE, "no query", "pass one: embed search \"a query\" FILE, or several with --queries");
        options.query = words[0];
        words.erase(words.begin());
    }
    if (words.size() > 1) return fail(USAGE, "one FILE at most: " + quoted(words[1]) + " is another", "quote a query of several words");
    options.has_input = !words.empty();
    if (options.has_input) options.input = words[0];
    return check_reading(options);
}

class EmbedGrammar final : public Grammar {
public:
    explicit EmbedGrammar(Options &options) : options_(options) {}

    int values(const std::string &name) const override {
        const Known *option = find(name);
        return option ? option->values() : -1;
    }
    std::string said(const std::string &name) const override { return embed::said(*find(name)); }
    bool done() const override { return options_.help; }

    Error take(const std::string &name, const std::vector<std::string> &values) override {
        const Known &option = *find(name);
        if (option.is_instead()) {
            if (!exclusive_.empty() && exclusive_ != name) return usage("argument " + name + ": not allowed with argument " + exclusive_);
            exclusive_ = name;
        }
        return set(option, values, options_);
    }

private:
    const Known *find(const std::string &name) const {
        for (const Known &one : KNOWN)
            if (one.is(name.c_str()) && (one.command & (options_.search ? SEARCH : EMBED))) return &one;
        return nullptr;
    }

    Options &options_;
    std::string exclusive_;
};

}  // namespace

std::string quoted(const std::string &word) { return "'" + word + "'"; }

Error usage(const std::string &message) { return fail(USAGE, message, LISTS); }

Error read_number(const std::string &name, const std::string &word, size_t most, size_t &place) {
    bool digits = !word.empty() && word.size() <= 10 && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    unsigned long long number = digits ? strtoull(word.c_str(), nullptr, 10) : 0;
    if (number < 1 || number > most)
        return usage("argument " + name + ": " + quoted(word) + " is not a number from 1 to " + std::to_string(most));
    place = size_t(number);
    return {};
}

Error check_choice(const std::string &name, const std::string &word, const char *choices) {
    std::string listed, choice;
    for (const char *at = choices;; at++) {
        if (*at != ',' && *at) {
            if (*at != ' ') choice += *at;
            continue;
        }
        if (word == choice) return {};
        listed += (listed.empty() ? "" : ", ") + quoted(choice);
        choice.clear();
        if (!*at) break;
    }
    return usage("argument " + name + ": invalid choice: " + quoted(word) + " (choose from " + listed + ")");
}

Error read_words(int count, char **words, int at, Grammar &grammar, std::vector<std::string> &texts) {
    std::vector<std::string> strangers;
    for (; at < count; at++) {
        std::string word = words[at];
        if (word == "--") {
            for (at++; at < count; at++) texts.push_back(words[at]);
            break;
        }
        if (!is_option(word)) {
            texts.push_back(word);
            continue;
        }
        if (word[1] != '-' && word.size() > 2 && word[2] != '=' && grammar.values(word.substr(0, 2)) == 1) word.insert(2, "=");
        size_t equals = word.find('=');
        std::string name = word.substr(0, equals);
        int wanted = grammar.values(name);
        if (wanted < 0) {
            strangers.push_back(word);
            continue;
        }
        std::vector<std::string> values;
        if (equals != std::string::npos) {
            if (wanted == 0) return usage("argument " + name + ": ignored explicit argument " + quoted(word.substr(equals + 1)));
            values.push_back(word.substr(equals + 1));
        } else {
            while (int(values.size()) < wanted && at + 1 < count && strcmp(words[at + 1], "--") && !is_option(words[at + 1]))
                values.push_back(words[++at]);
        }
        if (int(values.size()) != wanted)
            return usage("argument " + grammar.said(name) + (wanted == 1 ? ": expected one argument" : ": expected 2 arguments"));
        if (Error error = grammar.take(name, values)) return error;
        if (grammar.done()) return {};
    }
    if (!strangers.empty()) {
        std::string listed;
        for (auto &word : strangers) listed += " " + word;
        return usage("unrecognized arguments:" + listed);
    }
    return {};
}

std::string Options::instead() const {
    if (!similarity.empty()) return "similarity";
    return info ? "info" : check ? "check" : self_test ? "self_test" : bench ? "bench" : version ? "version" : "";
}

Error parse_options(int count, char **words, Options &options) {
    options.search = count > 1 && strcmp(words[1], "search") == 0;
    EmbedGrammar grammar(options);
    Error error = read_words(count, words, options.search ? 2 : 1, grammar, options.texts);
    if (!error && !options.help) error = options.search ? check_search(options) : check(options);
    if (options.search && error.hint == LISTS) error.hint = "see embed search --help";
    return error;
}

}  // namespace embed
