// The bundle's model as the server uses it: what a question asks for as rows of tokens, and what these give
// as an answer.
#pragma once
#include "scoring/scorer.h"
#include "serve/listen.h"
#include "serve/options.h"
#include "serve/task.h"

namespace embed {

class ServedModel {
public:
    // A code of 2 for what this model cannot do, 4 and 5 for what is damaged.
    Error open(const Bundle &bundle, const ServeOptions &options);
    // The body of a request to rows.
    Refusal read(Task &task) const;
    Error embed(const std::vector<Encoding> &rows, std::vector<float> &vectors) const {
        return embedder_.embed_tokens(rows, vectors, 1);
    }
    // A row of chunks that are read together: its vectors go where they belong.
    Error embed_joined(Task &task, size_t row) const;
    // The vector of a row.
    void keep(Task &task, size_t row, const float *vector) const;
    // What the user's own module makes of all of them, where there is one.
    Refusal finish(Task &task) const;
    void write(Task &task) const;
    // What `serve --check` asks.
    Probe probe() const;
    size_t lanes() const { return size_t(embedder_.threads()); }
    size_t dimension() const { return embedder_.dimension(); }
    const Placement *placement() const { return embedder_.placement(); }
    const std::string &name() const { return name_; }

private:
    Refusal require_task(const Question &question) const;
    Refusal make_rows(Task &task) const;
    Refusal make_chunks(Task &task, const std::string &prefix) const;
    Refusal with_special_tokens(const std::vector<int64_t> &ids, Encoding &row) const;
    Refusal find_prefix(const Question &question, std::string &prefix) const;
    void shape(const Task &task, const float *vector, std::vector<float> &shaped) const;

    const Bundle *bundle_ = nullptr;
    const ServeOptions *options_ = nullptr;
    Embedder embedder_;
    std::unique_ptr<Scorer> scorer_;  // null where the model makes no scores
    std::string name_, task_;
    std::vector<int64_t> special_;
    bool normalized_ = false, several_ = false, dense_ = true, sparse_ = false;
};

}  // namespace embed
