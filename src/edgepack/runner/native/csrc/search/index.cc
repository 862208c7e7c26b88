#include "search/index.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>

#include "base/sha256.h"
#include "program/options.h"

namespace embed {

namespace {

constexpr size_t HEADER = 256, DIGITS = 32;
// Texts after which what there is becomes the index, and again whenever there are twice as many.
constexpr size_t FIRST_STEP = 1024;
constexpr char MARK[] = " # embed search ";

std::string_view bytes_of(const float *numbers, size_t count) {
    return {reinterpret_cast<const char *>(numbers), count * sizeof(float)};
}

Error foreign(const std::string &path) {
    return fail(INPUT, path + " is not an index of embed search", "name another file with --index");
}

}  // namespace

std::string sha256_of(std::string_view text) {
    Sha256 digest;
    digest.update(reinterpret_cast<const uint8_t *>(text.data()), text.size());
    return digest.finish();
}

// npy 1.0; NumPy passes over the comment.
std::string Index::header(size_t count, uint32_t checksum) const {
    char text[HEADER + 1];
    int size = snprintf(text, sizeof text,
                        "\x93NUMPY\x01%c\xF6%c{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), "
                        "}%s%s, adler32 %08x",
                        0, 0, count, dimension_, MARK, maker_.c_str(), checksum);
    memset(text + size, ' ', HEADER - size_t(size));
    text[HEADER - 1] = '\n';
    return {text, HEADER};
}

Error Index::open(const std::string &path, bool asked, const std::string &maker, size_t dimension) {
    path_ = path, asked_ = asked, maker_ = maker, dimension_ = dimension;
    if (path_.empty()) return {};
    struct stat status;
    // A link that nobody named may lead to any file of the user's.
    bool link = !asked && lstat(path_.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
    if (Error error = link ? foreign(path_) : find_kept()) {
        if (asked) return error;
        say("note: the vectors are not kept: " + error.message + "\n");
        path_.clear();
    } else if (!problem_.empty()) {
        say("note: " + path_ + " " + problem_ + ": made anew\n");
    }
    return {};
}

Error Index::find_kept() {
    struct stat status;
    int failure = stat(path_.c_str(), &status) ? errno : 0;
    if (failure == ENOENT) return {};
    if (!failure && !S_ISREG(status.st_mode)) return foreign(path_);
    found_ = true;
    if (!failure && status.st_size == 0) return {};
    if (!failure) failure = kept_->open(path_.c_str());
    if (failure) return fail(INPUT, "cannot read " + path_ + ": " + strerror(failure));
    std::string_view all(reinterpret_cast<const char *>(kept_->data()), kept_->size());
    std::string_view start = all.substr(0, HEADER);
    size_t at = start.find(MARK);
    if (at == std::string_view::npos) return foreign(path_);
    start.remove_prefix(at + sizeof MARK - 1);
    if (start.substr(0, maker_.size()) != maker_) {
        std::string said(start.substr(0, start.find(", adler32")));
        if (asked_)
            return fail(INPUT, path_ + " has vectors of " + said + ", not of " + maker_,
                        "to make it anew: rm " + quoted(path_) + ", and this command again");
        problem_ = "is of another model or other settings";
        return {};
    }
    size_t entry = 4 * dimension_ + DIGITS, count = all.size() < HEADER ? 0 : (all.size() - HEADER) / entry;
    bool whole = all.size() == HEADER + count * entry;
    whole = whole && all.substr(0, HEADER) == header(count, adler32(all.substr(HEADER), 1));
    // search() makes no others, whether or not the model's are of length 1. What is not a number is not so
    // either.
    for (size_t index = 0; whole && index < count; index++) {
        auto row = reinterpret_cast<const float *>(kept_rows(index, 1).data());
        float square = dot(row, row, dimension_);
        whole = square == 0 || (square > 0.998f && square < 1.002f);
    }
    if (whole) count_ = count;
    else problem_ = "is damaged";
    return {};
}

std::string_view Index::kept_rows(size_t start, size_t count) const {
    return {reinterpret_cast<const char *>(kept_->data()) + HEADER + start * dimension_ * 4,
            count * dimension_ * 4};
}

std::string_view Index::digest(size_t at) const {
    return {kept_rows(count_, 0).data() + at * DIGITS, DIGITS};
}

// Which row is that of a text; -1: none. `guess` is looked at first.
ptrdiff_t Index::place(std::string_view wanted, size_t guess) {
    if (guess < count_ && digest(guess) == wanted) return ptrdiff_t(guess);
    if (places_.empty())
        for (size_t at = 0; at < count_; at++) places_[digest(at)] = at;
    auto found = places_.find(wanted);
    return found == places_.end() ? -1 : ptrdiff_t(found->second);
}

Error Index::vectors(const std::vector<Record> &records, const Make &make, std::vector<float> &rows) {
    size_t start = digests_.size() / DIGITS;
    std::vector<ptrdiff_t> places;
    std::vector<std::string_view> missing;
    size_t same = 0;  // from the first on, those that stand where they stood
    for (const Record &record : records) {
        std::string digest = sha256_of(record.text).substr(0, DIGITS);
        places.push_back(place(digest, start + places.size()));
        if (same + 1 == places.size() && places.back() == ptrdiff_t(start + same)) same++;
        if (places.back() < 0) missing.push_back(record.text);
        digests_ += digest;
    }
    std::vector<float> made;
    if (!missing.empty())
        if (Error error = make(missing, made)) return error;
    rows.resize(records.size() * dimension_);
    const char *next = bytes_of(made.data(), 0).data();
    for (size_t at = 0; at < places.size(); at++) {
        const char *from = places[at] < 0 ? next : kept_rows(size_t(places[at]), 1).data();
        if (places[at] < 0) next += dimension_ * 4;
        memcpy(&rows[at * dimension_], from, dimension_ * 4);
    }
    made_ += missing.size();
    if (!writing_) grows_ = start + same >= count_;
    Error error = path_.empty() ? Error{} : write(rows, same == records.size(), start);
    return error || !grows_ || made_ < std::max(FIRST_STEP, count_) ? error : step();
}

// What there is becomes the index: whoever breaks off the rest does not lose it.
Error Index::step() {
    if (Error error = finish()) return error;
    kept_ = std::make_unique<Mapping>();
    places_.clear();
    count_ = made_ = 0;
    checksum_ = 1;
    writing_ = grows_ = false;
    if (path_.empty()) return {};  // Given up, which was said.
    Error error = find_kept();
    if (!error && kept_->size() == HEADER + count_ * 4 * dimension_ + digests_.size() &&
        !memcmp(digest(0).data(), digests_.data(), digests_.size()))
        return {};
    return give_up(error ? error : fail(OUTPUT, path_ + " was changed by others"));
}

Error Index::write(const std::vector<float> &rows, bool same, size_t start) {
    if (!writing_ && same) return {};
    if (!writing_)
        if (Error error = begin(start)) return give_up(error);
    append(bytes_of(rows.data(), rows.size()));
    if (Error error = output_.flush()) return give_up(error);
    return {};
}

// A new file, with the first rows as they are.
Error Index::begin(size_t count) {
    if (Error error = output_.open(&path_, mode)) return error;
    writing_ = true;
    output_.write(std::string(HEADER, ' '));
    append(kept_rows(0, count));
    return output_.flush();
}

void Index::append(std::string_view bytes) {
    checksum_ = adler32(bytes, checksum_);
    output_.write(bytes);
}

Error Index::finish() {
    size_t count = digests_.size() / DIGITS;
    if (path_.empty() || (!writing_ && count == count_)) return {};
    Error error = writing_ ? Error{} : begin(count);
    if (!error) {
        append(digests_);
        error = output_.patch(0, header(count, checksum_));
    }
    // Windows puts no file in the place of one that is mapped.
    kept_.reset();
    if (!error) error = output_.finish();
    if (error) return give_up(error);
    if (!found_) say("note: the vectors are kept in " + path_ + "\n");
    return {};
}

Error Index::give_up(const Error &error) {
    if (asked_) return error;
    say("note: the vectors are not kept: " + error.message + "\n");
    path_.clear();
    return {};
}

}  // namespace embed
