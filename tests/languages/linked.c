/* Has a bundle inside: writes the vectors of texts, FOLDER TEXT... The bundle's folder gives the same, and threads do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"

enum { THREADS = 8 };
static embed_bundle *bundle;
static const char *const *texts;
static size_t rows, width;

/* Names that libembed has for itself, too: of C++'s operator new, and of a function of its own. */
void *_Znwm(size_t size) { return (void)size, NULL; }
int _ZN5embed10check_lateERKNS_6BundleE(void) { return 1; }

static int refuse(const char *why) { return fprintf(stderr, "%s\n", why), 1; }

static void *vectors_of(void *opened) {
    char error[256];
    float *vectors = malloc(rows * width * sizeof *vectors);
    if (embed_texts(opened, texts, NULL, rows, vectors, error, sizeof error)) exit(refuse(error));
    return vectors;
}

int main(int count, char **words) {
    const embed_options checked = {.check = EMBED_CHECK_ONCE}, asked = {.public_key = "any"}, wrong = {.prefix = "answer"};
    embed_bundle *folder, *none;
    char error[256];
    texts = (const char *const *)words + 2;
    rows = (size_t)count - 2;
    if (embed_open(NULL, &checked, &bundle, error, sizeof error)) return refuse(error);
    embed_close(bundle);
    if (embed_open(NULL, &checked, &bundle, error, sizeof error)) return refuse(error);
    if (embed_open(words[1], NULL, &folder, error, sizeof error)) return refuse(error);
    if (embed_open(NULL, &asked, &none, error, sizeof error) != 2 || !strstr(error, "sign the program")) return refuse("signed");
    if (embed_open(NULL, &wrong, &none, error, sizeof error) != 2) return refuse("prefix");
    if (embed_open("(inside the program)/other", NULL, &none, error, sizeof error) != 4) return refuse("other");
    if (embed_open("", NULL, &none, error, sizeof error) != 2) return refuse("nothing");
    width = embed_dimension(bundle);
    float *vectors = vectors_of(bundle), *others = vectors_of(folder);
    if (memcmp(vectors, others, rows * width * sizeof *vectors)) return refuse("other bits");
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, vectors_of, bundle);
    for (int at = 0; at < THREADS; at++) {
        void *made;
        pthread_join(threads[at], &made);
        if (memcmp(made, vectors, rows * width * sizeof *vectors)) return refuse("other bits by a thread");
    }
    embed_close(folder);
    embed_close(bundle);
    return fwrite(vectors, sizeof *vectors, rows * width, stdout) != rows * width;
}
