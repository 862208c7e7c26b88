/* The program as a function, with calls back to the program of another language that has started it. */
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each call hands its answer over with embed_answer(), once. A code that is not 0 is an exit code of the
   program, and the answer then a sentence and, after a line break, a hint. Several threads call at once.
   Texts are UTF-8. */
typedef struct embed_host {
    /* Five numbers of 32 bits: TokenizerFacts of base/host.h. */
    int (*open_tokenizer)(const char *path, void *answer);
    /* Ids, and as many types behind them, of 32 bits each. `second` may be null. */
    int (*encode)(const char *text, size_t size, const char *second, size_t second_size, size_t max_length,
                  void *answer);
    /* Two bytes: whether it prepares, and whether it finishes. */
    int (*open_module)(const char *path, void *answer);
    /* The length of each text, 64 bits, and behind all of them the texts. */
    int (*prepare)(const char *const *texts, const size_t *lengths, size_t count, void *answer);
    /* float32 [count, dimension], as the vectors are. */
    int (*finish)(const float *vectors, size_t dimension, const char *const *texts, const size_t *lengths,
                  size_t count, void *answer);
} embed_host;

/* embed_main() with a host, which is there as long as the process is. */
int embed_main_with(int count, char **words, const embed_host *host);
void embed_answer(void *answer, const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
