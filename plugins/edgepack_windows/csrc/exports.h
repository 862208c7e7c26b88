// What embed.h declares, by its types for a caller of Windows.
EXPORT(int, embed_open, (const char *folder, const void *options, void **bundle, char *error, size_t size), (folder, options, bundle, error, size))
EXPORT(size_t, embed_dimension, (const void *bundle), (bundle))
EXPORT(int, embed_texts, (const void *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors, char *error, size_t size), (bundle, texts, lengths, count, vectors, error, size))
EXPORT(const char *, embed_label, (const void *bundle, size_t index), (bundle, index))
EXPORT(int, embed_scores, (const void *bundle, const char *query, const char *const *texts, const size_t *lengths, size_t count, float *scores, char *error, size_t size), (bundle, query, texts, lengths, count, scores, error, size))
EXPORT(int, embed_outputs, (const void *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors, void *sparse, void *multi_vector, char *error, size_t size), (bundle, texts, lengths, count, vectors, sparse, multi_vector, error, size))
EXPORT_VOID(embed_free_rows, (void *rows), (rows))
EXPORT_VOID(embed_close, (void *bundle), (bundle))
