#include "program/options.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "program/option_table.h"

namespace embed {

namespace {

constexpr const char *SEE_HELP[] = {"see embed --help", "see embed search --help", "see embed serve --help"};

const char *see_help(Command command) { return SEE_HELP[command >> 1]; }

// A number or a dash alone, and what has a space in it, are texts.
bool is_option(const std::string &word) {
    bool negative = word.size() > 1 && strspn(word.c_str() + 1, "0123456789.") == word.size() - 1;
    return word.size() > 1 && word[0] == '-' && !negative &&
           (word.find(' ') == std::string::npos || word.find('=') != std::string::npos);
}

bool is_among(const std::string &word, std::string_view choices) {
    if (word.empty() || word.find_first_of(", ") != word.npos) return false;
    for (size_t at = choices.find(word); at != choices.npos; at = choices.find(word, at + 1)) {
        bool begins = at == 0 || choices[at - 1] == ' ',
             ends = at + word.size() == choices.size() || choices[at + word.size()] == ',';
        if (begins && ends) return true;
    }
    return false;
}

bool read_whole(const std::string &word, const Option &option, size_t &place) {
    if (word.empty() || word.size() > 10 || strspn(word.c_str(), "0123456789") != word.size()) return false;
    unsigned long long number = strtoull(word.c_str(), nullptr, 10);
    place = size_t(number);
    return number >= unsigned(option.least) && number <= unsigned(option.most);
}

bool read_real(const std::string &word, double least, double most, double &place) {
    char *end = nullptr;
    if (word.empty() || strspn(word.c_str(), "0123456789.+-eE") != word.size()) return false;
    place = strtod(word.c_str(), &end);
    return !*end && place >= least && place <= most;
}

class CommandLine {
public:
    CommandLine(int count, char **words, Options &options)
        : count_(count), words_(words), options_(options) {}

    Error parse(int first) {
        for (at_ = first; at_ < count_ && !options_.help; at_++) {
            std::string word = words_[at_];
            if (word == "--") {
                options_.texts.insert(options_.texts.end(), words_ + at_ + 1, words_ + count_);
                break;
            }
            if (!is_option(word)) {
                options_.texts.push_back(std::move(word));
                continue;
            }
            if (Error error = take(word)) return error;
        }
        return {};
    }

private:
    Error usage(std::string message) const {
        return fail(USAGE, std::move(message), see_help(options_.command));
    }

    const Option *find(std::string_view name) const {
        for (const Option &one : OPTIONS)
            if (name == one.name && one.commands & options_.command) return &one;
        return nullptr;
    }

    // An option, with what belongs to it of the words behind.
    Error take(std::string word) {
        // -k3 is -k 3.
        if (word[1] != '-' && word.size() > 2 && word[2] != '=')
            if (const Option *brief = find(word.substr(0, 2)); brief && brief->kind != Option::FLAG)
                word.insert(2, "=");
        const size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const Option *option = find(name);
        if (!option) {
            if constexpr (!LEFT_OUT.empty())
                if (options_.command == EMBED && is_among(name, LEFT_OUT))
                    return fail(USAGE, "this program was built without " + name, "build with --set chunks=true");
            return usage("unknown option " + name);
        }
        const bool flag = option->kind == Option::FLAG, pair = (option->count & 3) == 2;
        std::vector<std::string> values;
        if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
        for (size_t wanted = flag   ? 0
                             : pair ? 2
                                    : 1;
             equals == std::string::npos && values.size() < wanted && at_ + 1 < count_;) {
            if (!strcmp(words_[at_ + 1], "--") || is_option(words_[at_ + 1])) break;
            values.push_back(words_[++at_]);
        }
        if (flag && !values.empty()) return usage(name + " takes no value, not " + quoted(values[0]));
        if (!flag && values.size() != (pair ? 2 : 1))
            return usage(name + (pair ? " needs two values" : " needs a value"));
        if ((option->count & Option::ALONE) && !alone_.empty() && alone_ != name)
            return usage(name + " cannot be used with " + alone_);
        if ((option->count & Option::ALONE)) alone_ = name;
        if (option->seen) options_.*option->seen = true;
        return set(*option, name, values);
    }

    Error set(const Option &option, const std::string &name, std::vector<std::string> &values) {
        auto wrong = [&](const std::string &what) { return usage(name + ": " + quoted(values[0]) + what); };
        auto range = [&] {
            return wrong(" is not a number from " + std::to_string(option.least) + " to " +
                         std::to_string(option.most));
        };
        switch (option.kind) {
            case Option::FLAG: options_.*option.place.flag = true; break;
            case Option::LIST:
                if (option.count & 3) options_.*option.place.list = std::move(values);
                else (options_.*option.place.list).push_back(values[0]);
                break;
            case Option::WHOLE:
                return read_whole(values[0], option, options_.*option.place.whole) ? Error{} : range();
            case Option::REAL:
                return read_real(values[0], option.least, option.most, options_.*option.place.real) ? Error{}
                                                                                                    : range();
            case Option::TEXT:
                if (option.choices && !is_among(values[0], option.choices))
                    return wrong(std::string(" is none of ") + option.choices);
                options_.*option.place.text = values[0];
        }
        return {};
    }

    int count_, at_ = 0;
    char **words_;
    Options &options_;
    std::string alone_;
};

// What does not go together of what is said of the input.
Error check_reading(const Options &options) {
    if ((!options.text_field.empty() || !options.id_field.empty()) && !options.jsonl)
        return fail(USAGE, std::string(options.text_field.empty() ? "--id-field" : "--text-field") +
                               " requires --jsonl");
    if (options.skip_bad && !options.jsonl && !options.strict)
        return fail(USAGE, "--skip-bad requires --jsonl or --strict", "in other input, no line can be bad");
    return {};
}

struct Said {
    bool there;
    const char *name;
};

// The first of these that is there; empty: none.
template <size_t count> std::string first_of(const Said (&all)[count]) {
    for (const Said &one : all)
        if (one.there) return one.name;
    return "";
}

// Combinations that make no sense.
Error check(const Options &options) {
    const std::string instead = options.instead();
    const std::string reading = first_of({{options.has_input, "--input"},
                                          {options.jsonl, "--jsonl"},
                                          {!options.text_field.empty(), "--text-field"},
                                          {!options.id_field.empty(), "--id-field"},
                                          {options.skip_bad, "--skip-bad"}});
    const std::string shaping = first_of({{!options.prefix.empty(), "--prefix"},
                                          {options.max_length > 0, "--max-length"},
                                          {options.dim > 0, "--dim"}});
    if (!instead.empty() && (!options.texts.empty() || !reading.empty()))
        return fail(USAGE, instead + " takes no texts to embed");
    if (!instead.empty() && (!options.output_format.empty() || options.dtype != "f32"))
        return fail(USAGE, instead + " writes no vectors: --out and --dtype do not apply");
    if (!instead.empty() && instead != "--similarity" && !shaping.empty())
        return fail(USAGE, shaping + " cannot be used with " + instead);
    if (options.json && (instead.empty() || instead == "--similarity" || instead == "--version"))
        return fail(USAGE, "--json requires --info, --check, --self-test or --bench",
                    "for vectors as JSON: --out json");
    if (!options.texts.empty() && !reading.empty())
        return fail(USAGE, "texts on the command line cannot be used with " + reading);
    if (Error error = check_reading(options)) return error;
    if (options.output_format == "table" && options.dtype != "f32")
        return fail(USAGE, "a table shows f32 only: --dtype does not apply");
    if (options.id_field == "embedding")
        return fail(USAGE, "--id-field cannot be \"embedding\": the vector has that name");
    return {};
}

// The words of `embed search` are its query and its file.
Error check_search(Options &options) {
    std::vector<std::string> words;
    words.swap(options.texts);
    if (!options.has_queries) {
        if (words.empty())
            return fail(USAGE, "no query",
                        "pass one: embed search \"a query\" FILE, or several with --queries");
        options.query = words[0];
        words.erase(words.begin());
    }
    if (words.size() > 1)
        return fail(USAGE, "one FILE at most: " + quoted(words[1]) + " is another",
                    "quote a query of several words");
    options.has_input = !words.empty();
    if (options.has_input) options.input = words[0];
    return check_reading(options);
}

}  // namespace

std::string quoted(const std::string &word) { return "'" + word + "'"; }

std::string Options::instead() const {
    if (!similarity.empty()) return "--similarity";
    return info        ? "--info"
           : check     ? "--check"
           : self_test ? "--self-test"
           : warmup    ? "--warmup"
           : bench     ? "--bench"
           : version   ? "--version"
                       : "";
}

const char *help_of(Command command) {
    return command == SERVE ? HELP_SERVE : command == SEARCH ? HELP_SEARCH : HELP_EMBED;
}

Error parse_options(int count, char **words, Options &options) {
    const std::string first = count > 1 ? words[1] : "";
    options.command = first == "search" ? SEARCH : first == "serve" ? SERVE : EMBED;
    if (Error error = CommandLine(count, words, options).parse(options.command == EMBED ? 1 : 2))
        return error;
    if (options.help) return {};
    if (options.command == SERVE && !options.texts.empty())
        return fail(USAGE, "embed serve takes no texts, not " + quoted(options.texts[0]), see_help(SERVE));
    return options.command == SERVE    ? Error{}
           : options.command == SEARCH ? check_search(options)
                                       : check(options);
}

}  // namespace embed
