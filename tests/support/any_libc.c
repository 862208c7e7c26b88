/* A library's part of what any C library has to stand: memory, errno, numbers, files and threads, from many threads of the caller's. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

enum { THREADS = 4, ROUNDS = 200, BLOCKS = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;

static int memory(unsigned number) {
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        number = number * 1103515245 + 12345;
        const unsigned at = number >> 8 & 31, size = number >> 13 & 0x3FFF;
        for (size_t byte = 0; byte < sizes[at]; byte++)
            if (blocks[at][byte] != (unsigned char)at) return 0;
        blocks[at] = realloc(blocks[at], size + 1);
        if (!blocks[at]) return 0;
        memset(blocks[at], (int)at, sizes[at] = size + 1);
    }
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    void *aligned = aligned_alloc(64, 640);
    const int right = aligned && !((size_t)aligned % 64);
    free(aligned);
    return right;
}

static int numbers(void) {
    char text[64];
    snprintf(text, sizeof text, "%d %.3f %s", -7, 2.5, "seven");
    return !strcmp(text, "-7 2.500 seven") && strtod("0.1", NULL) == 0.1 && strtol("-12", NULL, 10) == -12;
}

static int files(void) {
    char text[64], *line = NULL;
    size_t room = 0;
    struct stat status;
    FILE *file = fopen("/proc/self/stat", "re");
    const int read = file && getline(&line, &room, file) > 0 && strchr(line, ')');
    if (file) fclose(file);
    free(line);
    errno = 0;
    const int none = open("/nowhere/at/all", O_RDONLY) < 0 && errno == ENOENT && lstat("/nowhere", &status) && errno == ENOENT;
    snprintf(text, sizeof text, "%s", strerror(errno));
    return read && none && !strcmp(text, "No such file or directory");
}

typedef struct {
    int here, wanted;
    volatile int wrong;
} Meeting;

/* Each has an errno of its own, though others set theirs; and all wait for the last. */
static void *meet(void *given) {
    Meeting *meeting = given;
    sigset_t blocked;
    pthread_mutex_lock(&mutex);
    const int own = 1000 + ++meeting->here;
    errno = own;
    if (meeting->here == meeting->wanted) pthread_cond_broadcast(&all_here);
    while (meeting->here < meeting->wanted) pthread_cond_wait(&all_here, &mutex);
    if (errno != own) meeting->wrong = 1;
    pthread_mutex_unlock(&mutex);
    if (!memory((unsigned)own) || pthread_sigmask(SIG_BLOCK, NULL, &blocked) || !sigismember(&blocked, SIGUSR1)) meeting->wrong = 2;
    return given;
}

static int threads(void) {
    Meeting meeting = {0, THREADS, 0};
    pthread_t made[THREADS];
    void *result;
    for (int at = 0; at < THREADS; at++)
        if (pthread_create(&made[at], NULL, meet, &meeting)) return 0;
    for (int at = 0; at < THREADS; at++)
        if (pthread_join(made[at], &result) || result != &meeting) return 0;
    return meeting.here == THREADS && !meeting.wrong;
}

/* What is wrong first, or nothing. */
__attribute__((visibility("default"))) const char *check_all(unsigned number) {
    if (!getauxval(AT_RANDOM)) return "what Linux tells";
    if (!numbers()) return "numbers";
    if (!files()) return "files";
    if (!memory(number)) return "memory";
    return NULL;
}

__attribute__((visibility("default"))) const char *check_threads(void) { return threads() ? NULL : "threads"; }
