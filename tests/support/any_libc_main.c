/* Loads a library of any_libc.c, and has it checked by several of its own threads: LIBRARY [android]. The word `android`: from then on no system
 * call is allowed that Android forbids apps. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "android_calls.h"

enum { THREADS = 6, ROUNDS = 4 };

static const char *(*check_all)(unsigned);
static const char *(*check_threads)(void);

static const char *rounds(unsigned number) {
    const char *wrong = NULL;
    for (unsigned round = 0; !wrong && round < ROUNDS; round++) {
        wrong = check_all(number + round);
        if (!wrong) wrong = check_threads();
    }
    return wrong;
}

static void *call(void *number) { return (void *)rounds((unsigned)(size_t)number); }

int main(int count, char **words) {
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return puts(dlerror()), 1;
    check_all = (const char *(*)(unsigned))dlsym(library, "check_all");
    check_threads = (const char *(*)(void))dlsym(library, "check_threads");
    const char *wrong = NULL;
    if (count > 2) {
        if (allow_only_what_android_allows()) return puts("no filter"), 1;
        wrong = rounds(1);
    } else {
        pthread_t made[THREADS];
        for (int at = 0; at < THREADS; at++) pthread_create(&made[at], NULL, call, (void *)(size_t)at);
        for (int at = 0; at < THREADS; at++) {
            void *said;
            pthread_join(made[at], &said);
            if (said) wrong = said;
        }
        dlclose(library);
    }
    return puts(wrong ? wrong : "right"), fflush(stdout), wrong != NULL;
}
