/* Prints a vector a line: example BUNDLE TEXT... */
#include <stdio.h>
#include <stdlib.h>

#include "embed.h"

int main(int count, char **words) {
    char error[256] = "";
    embed_bundle *bundle;
    int code = embed_open(words[1], NULL, &bundle, error, sizeof error);
    if (code) {
        fprintf(stderr, "%s\n", error);
        return code;
    }
    size_t texts = (size_t)count - 2, dimension = embed_dimension(bundle);
    float *vectors = malloc(texts * dimension * sizeof *vectors);
    code = embed_texts(bundle, (const char *const *)words + 2, NULL, texts, vectors, error, sizeof error);
    if (code) fprintf(stderr, "%s\n", error);
    for (size_t row = 0; !code && row < texts; row++)
        for (size_t column = 0; column < dimension; column++)
            printf("%.9g%c", vectors[row * dimension + column], column + 1 < dimension ? ' ' : '\n');
    free(vectors);
    embed_close(bundle);
    return code;
}
