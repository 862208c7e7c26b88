// malloc, free, calloc and realloc: musl's own beneath, and before it what was freed and fits, as glibc keeps it.
// musl's allocator gives pages back and asks for them anew, which costs an encoder a twentieth of its time.
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);
size_t malloc_usable_size(void *block);
unsigned long getauxval(unsigned long kind);
void *memcpy(void *target, const void *source, size_t size);
void *memset(void *target, int value, size_t size);

enum {
    STEP = 16,
    FINE = 1024,        // up to here a size class is one step wide, above it a quarter of a power of two
    LARGEST = 1 << 20,  // larger blocks are musl's alone
    CLASSES = FINE / STEP + 4 * 10 + 1,
    KEPT = 4 << 20,  // bytes of freed blocks at most
    RANDOM = 25,     // AT_RANDOM
};

typedef struct Block {
    uintptr_t next;  // not as it is: who writes over a freed block does not choose what malloc returns
} Block;

typedef struct {
    atomic_flag busy;
    Block *first;
} List;

static List lists[CLASSES];
static atomic_size_t kept;
static atomic_uintptr_t secret;  // of the process, set before the first use

// The class whose blocks are as large, or larger by less than its width.
static unsigned class_above(size_t size) {
    if (size <= FINE) return (unsigned)((size + STEP - 1) / STEP);
    const unsigned power = 63 - (unsigned)__builtin_clzl(size - 1);
    return FINE / STEP + 1 + (power - 10) * 4 + (unsigned)((size - 1) >> (power - 2) & 3);
}

static size_t size_of(unsigned class) {
    if (class <= FINE / STEP) return (size_t)class * STEP;
    const unsigned above = class - FINE / STEP - 1, power = 10 + above / 4;
    return ((size_t)4 + above % 4 + 1) << (power - 2);
}

// Nobody waits: whoever finds a list taken asks musl.
static int taken(List *list) { return !atomic_flag_test_and_set_explicit(&list->busy, memory_order_acquire); }

static void leave(List *list) { atomic_flag_clear_explicit(&list->busy, memory_order_release); }

static uintptr_t own_secret(void) {
    uintptr_t found = atomic_load_explicit(&secret, memory_order_relaxed);
    if (!found) {
        found = *(const uintptr_t *)getauxval(RANDOM) | 1;
        atomic_store_explicit(&secret, found, memory_order_relaxed);
    }
    return found;
}

static void *from(List *list, size_t size) {
    if (!taken(list)) return NULL;
    Block *block = list->first;
    if (block) {
        const uintptr_t next = block->next ^ own_secret();
        if (next % STEP) __builtin_trap();
        list->first = (Block *)next;
        atomic_fetch_sub_explicit(&kept, size, memory_order_relaxed);
    }
    leave(list);
    return block;
}

static int put(List *list, Block *block, size_t size) {
    if (atomic_load_explicit(&kept, memory_order_relaxed) + size > KEPT || !taken(list)) return 0;
    if (list->first == block) __builtin_trap();
    block->next = (uintptr_t)list->first ^ own_secret();
    list->first = block;
    atomic_fetch_add_explicit(&kept, size, memory_order_relaxed);
    leave(list);
    return 1;
}

void *malloc(size_t size) {
    if (size == 0 || size > LARGEST) return __libc_malloc(size);
    const unsigned class = class_above(size);
    void *block = from(&lists[class], size_of(class));
    return block ? block : __libc_malloc(size_of(class));
}

void free(void *block) {
    if (!block) return;
    const size_t size = malloc_usable_size(block);
    if (size >= STEP && size <= LARGEST) {
        unsigned class = class_above(size);
        if (size_of(class) > size) --class;
        if (put(&lists[class], block, size_of(class))) return;
    }
    __libc_free(block);
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    // What is fresh from the system is zero already, and musl knows it.
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > LARGEST) return __libc_calloc(count, size);
    void *block = malloc(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    const size_t has = malloc_usable_size(block);
    if (size > LARGEST && has > LARGEST) return __libc_realloc(block, size);
    if (size && size <= has && size >= has / 2) return block;
    void *larger = malloc(size);
    if (!larger) return NULL;
    memcpy(larger, block, has < size ? has : size);
    free(block);
    return larger;
}
