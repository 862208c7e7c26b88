// The plugin's malloc.c over this machine's own malloc: threads that allocate, fill, check and free at random.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef AS_LINKED  // it stands in the place of the C library's already, over the library's own
#define own_malloc malloc
#define own_free free
#define own_calloc calloc
#define own_realloc realloc
#else
void *own_malloc(size_t size);
void own_free(void *block);
void *own_calloc(size_t count, size_t size);
void *own_realloc(void *block, size_t size);
void *__libc_malloc(size_t size) { return malloc(size); }
void *__libc_calloc(size_t count, size_t size) { return calloc(count, size); }
void *__libc_realloc(void *block, size_t size) { return realloc(block, size); }
void __libc_free(void *block) { free(block); }
#endif

enum { BLOCKS = 200, ROUNDS = 15000 };

static void require(int holds, const char *what) {
    if (!holds) exit(printf("%s\n", what));
}

static int filled(const unsigned char *block, size_t size, int with) {
    return !size || (block[0] == with && !memcmp(block, block + 1, size - 1));
}

static void *work(void *seed) {
    unsigned char *blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int round = 0; round < ROUNDS; ++round) {
        random = random * 1103515245 + 12345;
        const int at = (int)(random >> 16) % BLOCKS, with = at + 1;
        const size_t size = (random >> 8) % ((size_t)1 << (4 + random % 17));
        require(filled(blocks[at], sizes[at], with), "a block was written over");
        if (random >> 28 == 1) {
            const size_t same = sizes[at] < size ? sizes[at] : size;
            blocks[at] = own_realloc(blocks[at], size);
            require(filled(blocks[at], same, with), "a block grew into another");
        } else {
            own_free(blocks[at]);
            blocks[at] = random >> 31 ? own_calloc(size, 1) : own_malloc(size);
            if (random >> 31) require(filled(blocks[at], size, 0), "calloc gave what was there");
        }
        require(blocks[at] && (uintptr_t)blocks[at] % 16 == 0, "a block is not aligned");
        if (size) memset(blocks[at], with, size);
        sizes[at] = size;
    }
    for (int at = 0; at < BLOCKS; ++at) own_free(blocks[at]);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (uintptr_t at = 0; at < 4; ++at) pthread_create(&threads[at], NULL, work, (void *)(at + 1));
    for (int at = 0; at < 4; ++at) pthread_join(threads[at], NULL);
    char *one = own_malloc(100);
    own_free(one);
    require(own_malloc(97) == one, "a freed block is not used again");
    puts("right");
    return 0;
}
