#include "program/options.h"

#include <algorithm>
#include <cstring>

namespace embed {

namespace {

struct Known {
    const char *name;
    int values;
    std::vector<const char *> choices;
    bool number;
};

const std::vector<Known> &known() {
    static const std::vector<Known> table = {
        {"--input", 1, {}, false},
        {"--jsonl", 0, {}, false},
        {"--text-field", 1, {}, false},
        {"--id-field", 1, {}, false},
        {"--strict", 0, {}, false},
        {"--skip-bad", 0, {}, false},
        {"--allow-cpu", 0, {}, false},
        {"--out", 1, {"json", "jsonl", "npy", "raw", "table"}, false},
        {"--output", 1, {}, false},
        {"--dtype", 1, {"f32", "f16", "int8", "binary"}, false},
        {"--dim", 1, {}, true},
        {"--prefix", 1, {"query", "passage"}, false},
        {"--max-length", 1, {}, true},
        {"--batch-size", 1, {}, true},
        {"--threads", 1, {}, true},
        {"--similarity", 2, {}, false},
        {"--info", 0, {}, false},
        {"--self-test", 0, {}, false},
        {"--warmup", 0, {}, false},
        {"--bench", 0, {}, false},
        {"--version", 0, {}, false},
        {"--json", 0, {}, false},
        {"--debug", 0, {}, false},
        // Not in the help: what the tokenizer makes of texts, for whoever looks into it.
        {"--tokens", 0, {}, false},
        {"--help", 0, {}, false},
        {"-h", 0, {}, false},
    };
    return table;
}

std::string quoted(const std::string &word) { return "'" + word + "'"; }

Error usage(const std::string &message) { return fail(USAGE, message, "see embed --help"); }

Error set_number(const std::string &name, const std::string &word, size_t &place) {
    bool digits = !word.empty() && word.size() <= 5 && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    size_t number = digits ? std::stoul(word) : 0;
    if (number < 1 || number > 65535)
        return usage("argument " + name + ": " + quoted(word) + " is not a number from 1 to 65535");
    place = number;
    return {};
}

Error set_choice(const Known &option, const std::string &word) {
    std::string listed;
    for (const char *choice : option.choices) {
        if (word == choice) return {};
        listed += (listed.empty() ? "" : ", ") + quoted(choice);
    }
    return usage("argument " + std::string(option.name) + ": invalid choice: " + quoted(word) + " (choose from " + listed + ")");
}

Error set(const Known &option, const std::vector<std::string> &values, Options &options) {
    const std::string name = option.name;
    if (!option.choices.empty())
        if (Error error = set_choice(option, values[0])) return error;
    if (option.number) {
        size_t &place = name == "--dim" ? options.dim : name == "--max-length" ? options.max_length
                        : name == "--batch-size" ? options.batch_size : options.threads;
        return set_number(name, values[0], place);
    }
    if (name == "--input") options.input = values[0], options.has_input = true;
    else if (name == "--output") options.output = values[0], options.has_output = true;
    else if (name == "--text-field") options.text_field = values[0];
    else if (name == "--id-field") options.id_field = values[0], options.has_id_field = true;
    else if (name == "--out") options.output_format = values[0];
    else if (name == "--dtype") options.dtype = values[0];
    else if (name == "--prefix") options.prefix = values[0];
    else if (name == "--similarity") options.similarity = values;
    else if (name == "--jsonl") options.jsonl = true;
    else if (name == "--strict") options.strict = true;
    else if (name == "--skip-bad") options.skip_bad = true;
    else if (name == "--allow-cpu") return {};  // this program knows nothing else
    else if (name == "--info") options.info = true;
    else if (name == "--self-test") options.self_test = true;
    else if (name == "--warmup") options.self_test = options.warmup = true;  // a processor needs no more
    else if (name == "--bench") options.bench = true;
    else if (name == "--version") options.version = true;
    else if (name == "--json") options.json = true;
    else if (name == "--tokens") options.tokens = true;
    else if (name == "--help" || name == "-h") options.help = true;
    return {};
}

std::string flag(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return "--" + name;
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
    if (options.json && instead != "info" && instead != "self_test" && instead != "bench")
        return fail(USAGE, "--json requires --info, --self-test or --bench", "for vectors as JSON: --out json");
    if (!options.texts.empty() && !reading.empty())
        return fail(USAGE, "texts on the command line cannot be used with " + flag(reading));
    if ((!options.text_field.empty() || !options.id_field.empty()) && !options.jsonl)
        return fail(USAGE, flag(options.text_field.empty() ? "id_field" : "text_field") + " requires --jsonl");
    if (options.skip_bad && !options.jsonl && !options.strict)
        return fail(USAGE, "--skip-bad requires --jsonl or --strict", "in other input, no line can be bad");
    if (options.output_format == "table" && options.dtype != "f32")
        return fail(USAGE, "a table shows f32 only: --dtype does not apply");
    if (options.id_field == "embedding") return fail(USAGE, "--id-field cannot be \"embedding\": the vector has that name");
    return {};
}

}  // namespace

std::string Options::instead() const {
    if (!similarity.empty()) return "similarity";
    return info ? "info" : self_test ? "self_test" : bench ? "bench" : version ? "version" : "";
}

Error parse_options(int count, char **words, Options &options) {
    std::vector<std::string> strangers;
    std::string exclusive;
    for (int at = 1; at < count; at++) {
        std::string word = words[at];
        if (word == "--") {
            for (at++; at < count; at++) options.texts.push_back(words[at]);
            break;
        }
        // A number or a dash alone is a text, and so is what has a space in it.
        bool negative = word.size() > 1 && strspn(word.c_str() + 1, "0123456789.") == word.size() - 1;
        if (word.size() < 2 || word[0] != '-' || negative || (word.find(' ') != std::string::npos && word.find('=') == std::string::npos)) {
            options.texts.push_back(word);
            continue;
        }
        size_t equals = word.find('=');
        std::string name = word.substr(0, equals);
        auto option = std::find_if(known().begin(), known().end(), [&](const Known &one) { return name == one.name; });
        if (option == known().end()) {
            strangers.push_back(word);
            continue;
        }
        std::vector<std::string> values;
        if (equals != std::string::npos) {
            if (option->values == 0) return usage("argument " + name + ": ignored explicit argument " + quoted(word.substr(equals + 1)));
            values.push_back(word.substr(equals + 1));
        } else {
            while (int(values.size()) < option->values && at + 1 < count && (words[at + 1][0] != '-' || words[at + 1][1] == 0 || strchr(words[at + 1], ' ')))
                values.push_back(words[++at]);
        }
        if (int(values.size()) != option->values)
            return usage("argument " + name + (option->values == 1 ? ": expected one argument" : ": expected 2 arguments"));
        if (name == "--similarity" || name == "--info" || name == "--self-test" || name == "--warmup" || name == "--bench" || name == "--version") {
            if (!exclusive.empty() && exclusive != name) return usage("argument " + name + ": not allowed with argument " + exclusive);
            exclusive = name;
        }
        if (Error error = set(*option, values, options)) return error;
        if (options.help) return {};
    }
    if (!strangers.empty()) {
        std::string listed;
        for (auto &word : strangers) listed += " " + word;
        return usage("unrecognized arguments:" + listed);
    }
    return check(options);
}

}  // namespace embed
