#include "program/about.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/sha256.h"
#include "features/feature.h"

namespace embed {

namespace {

std::string dumped(const Json &value) {
    std::string text;
    write_json(value, text, 2, false);
    return text + "\n";
}

// The member whose name follows `last` (null: the first) in the order of names; null: none does.
const std::pair<std::string, Json> *next_member(const Json &object, const std::string *last) {
    const std::pair<std::string, Json> *next = nullptr;
    for (auto &member : object.members)
        if ((!last || *last < member.first) && (!next || member.first < next->first)) next = &member;
    return next;
}

// Bytes of each part, in the order of their names.
Json sizes_of(const Json &files) {
    Json sizes, sorted;
    for (const Json &entry : files.items) {
        const Json *part = entry.get("part"), *size = entry.get("size");
        if (!part || !size) continue;
        Json *sum = nullptr;
        for (auto &member : sizes.members)
            if (member.first == part->text) sum = &member.second;
        if (!sum) sum = &sizes.members.emplace_back(part->text, json_number(0, "%.0f")).second;
        *sum = json_number(sum->number() + size->number(), "%.0f");
    }
    sorted.kind = Json::OBJECT;
    for (auto *next = next_member(sizes, nullptr); next; next = next_member(sizes, &next->first))
        sorted.members.push_back(*next);
    return sorted;
}

std::string joined(const Json *object, const char *between, const char *quote) {
    std::string text;
    for (auto *next = object ? next_member(*object, nullptr) : nullptr; next;
         next = next_member(*object, &next->first))
        text += (text.empty() ? "" : ", ") + next->first + between + quote + next->second.text + quote;
    return text;
}

std::string dimensions_of(const Bundle &bundle) {
    const Json *trained = bundle.manifest.at("model", "matryoshka");
    if (!trained || !trained->is(Json::OBJECT)) return "not supported by the model";
    std::string listed;
    if (const Json *items = trained->get("dimensions"))
        for (const Json &item : items->items) listed += (listed.empty() ? "" : ", ") + item.text;
    return listed.empty() ? "any up to " + std::to_string(bundle.dimension) : listed;
}

// What every manifest says, and --info shows.
Error check_said(const Bundle &bundle) {
    static const char *const needed[][2] = {
        {"model", "name"},      {"model", "precision"}, {"model", "pooling"},  {"model", "normalize"},
        {"model", "recipe"},    {"runtime", "version"}, {"runtime", "kind"},   {"runtime", "operators"},
        {"runner", "versions"}, {"target", "name"},     {"target", "platform"}};
    for (auto [section, name] : needed)
        if (!(ENCODER.instead && !strcmp(section, "runtime")) && !bundle.manifest.at(section, name))
            return fail(BUNDLE, std::string("manifest.json lacks something: '") + name + "'", COPY_AGAIN);
    return {};
}

std::string or_else(std::string text, const char *other) { return text.empty() ? other : text; }

std::string info_text(const Bundle &bundle, const Json &sizes) {
    auto provider_of = feature_with(&Feature::provider_of);
    std::string parts, out;
    double whole = 0;
    for (auto &[part, size] : sizes.members) {
        parts += (parts.empty() ? "" : ", ") + part + " " + megabytes(size.number());
        whole += size.number();
    }
    const Json *normalize = bundle.manifest.at("model", "normalize"),
               *operators = bundle.manifest.at("runtime", "operators");
    const Json *platform = bundle.manifest.at("target", "platform");
    auto of_platform = [&](const char *name) {
        const Json *found = platform ? platform->get(name) : nullptr;
        return found && found->is(Json::STRING) ? found->text : std::string();
    };
    std::string kernels;
    if (ENCODER.reduced)
        kernels = operators && operators->is(Json::ARRAY)
                      ? ", " + std::to_string(operators->items.size()) + " operator kernels"
                      : ", not reduced to the model's operators";
    const std::pair<const char *, std::string> lines[] = {
        {"bundle", bundle.text("", "name")},
        {"model", bundle.text("model", "name") + ", " +
                      or_else(bundle.text("model", "license"), "licence not stated")},
        {"", bundle.text("model", "precision") + ", " + std::to_string(bundle.dimension) + " dimensions, " +
                 std::to_string(bundle.max_length) + " tokens at most, " + bundle.text("model", "pooling") +
                 " pooling" + (normalize && normalize->truth() ? ", normalised" : "")},
        {"prefixes", or_else(joined(bundle.manifest.at("model", "prefixes"), " ", "'"), "none known")},
        {"--dim", dimensions_of(bundle)},
        {"recipe", bundle.text("model", "recipe")},
        {"runtime", ENCODER.instead ? ENCODER.instead
                                    : ENCODER.name + bundle.text("runtime", "version") + " (" +
                                          bundle.text("runtime", "kind") + ")" + kernels},
        {"provider", provider_of ? provider_of(bundle) : ""},
        {"runner", joined(bundle.manifest.at("runner", "versions"), " ", "")},
        {"for", of_platform("os") + " " + of_platform("arch") +
                    (of_platform("glibc").empty() ? "" : ", glibc " + of_platform("glibc") + " or newer")},
        {"sizes", parts + "; together " + megabytes(whole)},
        {"made by", "edgepack " + bundle.text("", "edgepack") + ", target " + bundle.text("target", "name")},
    };
    for (auto &[name, text] : lines) {
        if (text.empty()) continue;
        std::string label = name;
        label.resize(std::max(label.size(), size_t(8)), ' ');
        out += label + " " + text + "\n";
    }
    return out;
}

struct Golden {
    std::vector<std::string> texts;
    std::vector<std::vector<float>> vectors;
    double tolerance = 0;
};

Error read_golden(const Bundle &bundle, Golden &golden) {
    std::string path = bundle.directory + "/" + bundle.text("", "golden"), content, message;
    if (Error error = read_file(path, content)) return error;
    Json read;
    size_t position = 0;
    auto damaged = [&](const std::string &what) {
        return fail(BUNDLE, path + " is damaged: " + what, COPY_AGAIN);
    };
    if (!parse_json(content, read, message, position)) return damaged(message);
    const Json *texts = read.get("texts"), *vectors = read.get("vectors"), *tolerance = read.get("tolerance");
    if (!texts || !vectors || !tolerance) return damaged("it lacks texts, vectors or tolerance");
    if (texts->items.empty() || texts->items.size() != vectors->items.size())
        return damaged("it must have one vector per text, and at least one");
    golden.tolerance = tolerance->number();
    for (const Json &text : texts->items) golden.texts.push_back(text.text);
    for (const Json &vector : vectors->items) {
        golden.vectors.emplace_back();
        for (const Json &number : vector.items) golden.vectors.back().push_back(float(number.number()));
        if (golden.vectors.back().size() != bundle.dimension)
            return damaged("a vector is not of the model's dimension");
    }
    return {};
}

// Compares every file with its SHA-256 and the golden texts' vectors with those that the build made.
Error self_test(const Options &options, const Bundle &bundle, Json &result) {
    size_t files = 0;
    if (Error error = bundle.check_contents(files)) return error;
    Golden golden;
    if (Error error = read_golden(bundle, golden)) return error;
    Embedder embedder;
    if (Error error = embedder.open(bundle, options.embedding())) return error;
    result.kind = Json::OBJECT;
    result.members = {{"files", json_number(double(files), "%.0f")}};
    if (Error error = compare_golden(bundle, embedder, result)) return error;
    add_placement(embedder.placement(), result);
    return {};
}

const char NOTHING_TO_WARM[] =
    "nothing to warm up: this bundle is for the CPU; nothing is compiled or cached\n";

std::string self_test_text(const Json &result) {
    char lowest[64];
    snprintf(lowest, sizeof lowest, "%.6f", result.get("min_cosine")->number());
    auto placed_on = feature_with(&Feature::placed_on);
    const std::string on = placed_on ? placed_on(result) : "";
    return "self-test passed" + on + ": " + result.get("files")->text + " files intact, " +
           result.get("texts")->text + " texts, lowest cosine " + lowest + " (at least " +
           result.get("tolerance")->text + ")" +
           (result.get("vectors_sha256") ? ", the same bits as where it was made\n" : "\n");
}

}  // namespace

Error compare_golden(const Bundle &bundle, const Embedder &embedder, Json &result) {
    Golden golden;
    if (Error error = read_golden(bundle, golden)) return error;
    // Where every processor gives the same bits, these are compared.
    const Json *exact = bundle.manifest.at("model", "vectors_sha256");
    Sha256 bits;
    double lowest = 2;
    char said[64];
    for (size_t index = 0; index < golden.texts.size(); index++) {
        std::vector<float> vector;
        if (Error error = embedder.embed({golden.texts[index]}, vector)) return error;
        double near = cosine(vector.data(), golden.vectors[index].data(), bundle.dimension);
        lowest = std::min(lowest, near);
        bits.update(reinterpret_cast<const uint8_t *>(vector.data()), vector.size() * sizeof(float));
        snprintf(said, sizeof said, "%.6f", near);
        if (!(near >= golden.tolerance))
            return fail(SELF_TEST,
                        "self-test failed: the vector of text " + std::to_string(index + 1) + " has cosine " +
                            said + " to the golden vector, below " +
                            json_number(golden.tolerance, "%.9g").text,
                        "this device computes differently; please report it with the output of --info");
    }
    if (exact && bits.finish() != exact->text)
        return fail(
            SELF_TEST,
            "self-test failed: vectors have other bits than those of the machine that made the bundle",
            "this device computes differently; please report it with the output of --info");
    result.members.emplace_back("texts", json_number(double(golden.texts.size()), "%.0f"));
    result.members.emplace_back("min_cosine", json_number(lowest, "%.17g"));
    result.members.emplace_back("tolerance", json_number(golden.tolerance, "%.9g"));
    if (exact) result.members.emplace_back("vectors_sha256", *exact);
    return {};
}

void add_placement(const Placement *placed, Json &said) {
    auto add = feature_with(&Feature::add_placement);
    if (add && placed) add(*placed, said);
}

Json bundle_info(const Bundle &bundle) {
    Json said;
    said.kind = Json::OBJECT;
    for (auto &member : bundle.manifest.members)
        if (member.first != "files") said.members.push_back(member);
    if (const Json *files = bundle.manifest.get("files"))
        said.members.emplace_back("sizes", sizes_of(*files));
    return said;
}

Json json_number(double number, const char *form) {
    char digits[64];
    snprintf(digits, sizeof digits, form, number);
    Json made;
    made.kind = Json::NUMBER;
    made.text = digits;
    return made;
}

Json json_text(std::string text) {
    Json made;
    made.kind = Json::STRING;
    made.text = std::move(text);
    return made;
}

std::string megabytes(double size) {
    char text[64];
    if (size >= 100000) snprintf(text, sizeof text, "%.1f MB", size / 1e6);
    else snprintf(text, sizeof text, "%.1f kB", size / 1e3);
    return text;
}

Error about(const Options &options, const Bundle &bundle, std::string &text) {
    Json result;
    if (options.version) {
        text = "embed " + bundle.text("", "edgepack") + " (" + bundle.text("", "name") + ")\n";
    } else if (options.info) {
        Json said = bundle_info(bundle);
        if (Error error = options.json ? Error{} : check_said(bundle)) return error;
        text = options.json ? dumped(said) : info_text(bundle, said.members.back().second);
    } else if (options.check) {
        size_t files = 0;
        if (Error error = bundle.check_contents(files)) return error;
        result.kind = Json::OBJECT;
        result.members.emplace_back("files", json_number(double(files), "%.0f"));
        text = options.json ? dumped(result) : "check passed: " + std::to_string(files) + " files intact\n";
    } else if (options.bench) {
        if (Error error = bench(options, bundle, result)) return error;
        text = options.json ? dumped(result) : bench_text(result);
    } else {
        if (Error error = self_test(options, bundle, result)) return error;
        text = options.json ? dumped(result) : self_test_text(result);
        if (options.warmup && !options.json) text = NOTHING_TO_WARM + text;
    }
    return {};
}

}  // namespace embed
