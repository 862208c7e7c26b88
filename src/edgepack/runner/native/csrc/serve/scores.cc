#include "serve/scores.h"

#include "scoring/head.h"

namespace embed {

Error Scores::open(const Bundle &bundle) {
    auto head = std::make_shared<Head>();
    head_ = head;
    return head->open(bundle);
}

Error Scores::encode(const Embedder &embedder, const Question &question, std::vector<Encoding> &rows) const {
    std::vector<std::string_view> texts(question.texts.begin(), question.texts.end());
    return embedder.encode_pairs(question.query, texts, rows);
}

double Scores::score(const float *vector) const {
    std::vector<double> scores;
    static_cast<const Head *>(head_.get())->scores(vector, scores);
    return scores[0];
}

}  // namespace embed
