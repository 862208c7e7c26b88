// Vectors of texts that are kept in a file, so that a text is embedded once.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "program/output.h"
#include "program/reading.h"
#include "tokenizer/table.h"

namespace embed {

class Index {
public:
    // Appends unit vectors of texts.
    using Make = std::function<Error(const std::vector<std::string_view> &, std::vector<float> &)>;

    // An empty `path` keeps nothing. `maker` is what decides a text's vector. Where the user did not ask for
    // the file, one that cannot be used is no error. A code of 3.
    Error open(const std::string &path, bool asked, const std::string &maker, size_t dimension);
    // Of the texts: who may not read them may not read their vectors.
    unsigned mode = 0666;
    // Unit vectors of the texts that follow those of the last call. A code of 7.
    Error vectors(const std::vector<Record> &records, const Make &make, std::vector<float> &rows);
    // Puts the file in its place where the texts are not just those that it had.
    Error finish();
    // Whether there was something in the file that could be taken.
    bool has_kept() const { return count_; }

private:
    Error find_kept();
    Error step();
    Error write(const std::vector<float> &rows, bool same, size_t start);
    Error give_up(const Error &error);
    Error begin(size_t count);
    void append(std::string_view bytes);
    std::string header(size_t count, uint32_t checksum) const;
    std::string_view digest(size_t at) const;
    std::string_view kept_rows(size_t start, size_t count) const;
    ptrdiff_t place(std::string_view wanted, size_t guess);

    std::unique_ptr<Mapping> kept_ = std::make_unique<Mapping>();
    Output output_;
    std::map<std::string_view, size_t> places_;
    std::string path_, maker_, digests_, problem_;
    size_t dimension_ = 0, count_ = 0, made_ = 0;
    uint32_t checksum_ = 1;
    // `grows_`: the file that is written begins with all that is kept.
    bool asked_ = false, found_ = false, writing_ = false, grows_ = false;
};

std::string sha256_of(std::string_view text);
uint32_t adler32(std::string_view bytes, uint32_t start);
float dot(const float *first, const float *second, size_t size);

}  // namespace embed
