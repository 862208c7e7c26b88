/* libembed: a bundle's model as a library.
 *
 * Open a bundle's folder, or the one file that is program and bundle, turn texts into vectors or scores, close it. One bundle may be used
 * by any number of threads at once; opening and closing one is for one thread. Functions that can fail answer with 0, or with a code as the program's exit codes:
 * 2 a wish that the model cannot fulfil, 3 a text that is not UTF-8 where its bytes are counted, 4 a file of the bundle is missing or damaged, or not signed as was asked, 5 the model does not load or run;
 * `error` then holds a sentence (cut to `error_size` bytes, NUL included; it may be NULL). What runs out of memory aborts.
 *
 * A bundle's files are mapped while it is open: replace its folder by a rename, never a file in it. A file that is cut short
 * under an open bundle ends the process with SIGBUS.
 *
 * After fork() a child may call these functions where no other thread was in one of them, and opens its bundles anew;
 * else it may wait for ever.
 */
#ifndef EMBED_H
#define EMBED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef _WIN32
#define EMBED_API __declspec(dllimport)
#else
#define EMBED_API __attribute__((visibility("default")))
#endif

typedef struct embed_bundle embed_bundle;

/* What embed_open does to find a damaged model or tokenizer, which is a code of 4 then. */
enum {
    EMBED_CHECK_CONTENT = 0, /* compares their SHA-256 with the manifest's, each time */
    EMBED_CHECK_ONCE = 1,    /* not again where this process has, and inode, size and times of the files are as they were */
    EMBED_CHECK_SIZE = 2     /* compares their sizes alone: what is damaged otherwise may abort, or give other vectors */
};

/* All zero is the bundle's own way. */
typedef struct embed_options {
    size_t batch_size;  /* texts at once */
    size_t max_length;  /* tokens that count of a text, special ones included */
    size_t dimension;   /* only the first so many numbers, for models that were trained for it */
    int threads;        /* processor threads */
    const char *prefix; /* NULL, "query" or "passage": what the model wants before such a text */
    int check;          /* EMBED_CHECK_... */
    /* NULL, or a public key of ECDSA P-256 in PEM: the bundle has to be signed with it (edgepack sign), or that is a code of 4. All its
     * files are read then, each time. */
    const char *public_key;
} embed_options;

/* `options` may be NULL. `directory` is NULL for the bundle that is linked into the program, with libembed.a. */
EMBED_API int embed_open(const char *directory, const embed_options *options, embed_bundle **bundle, char *error,
                         size_t error_size);

/* Numbers in a vector. Those of a reranker or a classifier are what its last layer takes: they are not for comparing texts. */
EMBED_API size_t embed_dimension(const embed_bundle *bundle);

/* Writes count * embed_dimension(bundle) numbers to `vectors`, a row for each text in their order. Texts are UTF-8; what is not becomes
 * U+FFFD. `lengths` are their sizes in bytes; where it is NULL, texts end with a NUL. */
EMBED_API int embed_texts(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count,
                          float *vectors, char *error, size_t error_size);

/* Writes the ids of the text's tokens, as the model takes them, to `ids`, but no more than `room`; `count` is how many there are: no more
 * than the bundle's or `max_length`. Text and length as above, of one. */
EMBED_API int embed_tokens(const embed_bundle *bundle, const char *text, const size_t *length, uint32_t *ids, size_t room,
                           size_t *count, char *error, size_t error_size);

/* Writes the cosine of the angle between the vectors of two texts; texts and lengths as above. */
EMBED_API int embed_similarity(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, double *similarity,
                               char *error, size_t error_size);

/* The label with this number, from 0; NULL beyond the last, and for an embedding model. A reranker has one, "score". It stays until the
 * bundle is closed. */
EMBED_API const char *embed_label(const embed_bundle *bundle, size_t index);

/* Writes a number for each label of each text to `scores`, a row for each text in their order; texts and lengths as above. A reranker takes
 * `query` (it ends with a NUL) together with each text; a classifier does where it is not NULL. Without what the model
 * needs, and for an embedding model, the code is 2. */
EMBED_API int embed_scores(const embed_bundle *bundle, const char *query, const char *const *texts, const size_t *lengths,
                           size_t count, float *scores, char *error, size_t error_size);

/* Rows of numbers of several texts: those of text i are from offsets[i] on, before offsets[i + 1]. */
typedef struct embed_rows {
    size_t texts;
    size_t *offsets; /* texts + 1 */
    size_t width;    /* numbers in a row: 1 of sparse ones */
    float *values;   /* offsets[texts] * width */
    uint32_t *ids;   /* of sparse rows: the token that the number is the weight of, rising in a text; otherwise NULL */
} embed_rows;

/* Of models that give more than one vector per text (SPLADE, ColBERT, BGE-M3), all that is asked for from one run of the model; what is
 * NULL is not. `vectors` are as those of embed_texts; `sparse` has a row for each token with a weight, `multi_vector` for each token that
 * has a vector. A code of 2 for what the model does not give. Texts are read as documents, or as queries where the bundle was
 * opened with the prefix "query". Rows are to be freed by embed_free_rows. */
EMBED_API int embed_outputs(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors,
                            embed_rows *sparse, embed_rows *multi_vector, char *error, size_t error_size);

/* Frees what the rows point to, not `rows` itself. NULL is allowed. */
EMBED_API void embed_free_rows(embed_rows *rows);

/* Chunks of several texts: those of text i are from offsets[i] on, before offsets[i + 1]. */
typedef struct embed_chunked {
    size_t texts;
    size_t *offsets; /* texts + 1 */
    size_t *starts;  /* of each chunk, the first byte of its text */
    size_t *ends;    /* and that behind its last */
    float *vectors;  /* offsets[texts] * embed_dimension(bundle) */
} embed_chunked;

/* Texts in chunks of at most so many tokens, special ones and the prefix included, which end where a paragraph, a sentence or a word does; a
 * text that fits is one chunk. A chunk's vector is that of its own bytes as a text. Where `late` is not 0, chunks that fit in the model
 * together are read together, and each vector is pooled of its chunk's tokens (late chunking): for models with mean pooling and edgepack's
 * engine; otherwise the code is 2. It is 3 for a text that is not UTF-8. Chunks are to be freed by embed_free_chunks. */
EMBED_API int embed_chunks(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count, size_t tokens,
                           int late, embed_chunked *chunks, char *error, size_t error_size);

/* Frees what `chunks` points to, not `chunks` itself. NULL is allowed. */
EMBED_API void embed_free_chunks(embed_chunked *chunks);

/* NULL is allowed. */
EMBED_API void embed_close(embed_bundle *bundle);

#ifdef __cplusplus
}
#endif

#endif
