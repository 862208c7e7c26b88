// What the server does of rerankers: linked where the model is one.
#pragma once
#include "serve/task.h"

namespace embed {

class Scores {
public:
    // Nothing to do for a model without a last layer.
    Error open(const Bundle &bundle);
    Error encode(const Embedder &embedder, const Question &question, std::vector<Encoding> &rows) const;
    // Of the vector of a row.
    double score(const float *vector) const;

private:
    std::shared_ptr<void> head_;
};

}  // namespace embed
