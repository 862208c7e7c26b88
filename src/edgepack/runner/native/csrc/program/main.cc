#include <unistd.h>

#include "program/embed_main.h"

// Everything is written; taking the model apart would only take time.
int main(int count, char **words) { _exit(embed_main(count, words)); }
