// In the place of scores.cc, where the bundle's model is no reranker.
#include "serve/scores.h"

namespace embed {

Error Scores::open(const Bundle &) { return {}; }

Error Scores::encode(const Embedder &, const Question &, std::vector<Encoding> &) const { return {}; }

double Scores::score(const float *) const { return 0; }

}  // namespace embed
