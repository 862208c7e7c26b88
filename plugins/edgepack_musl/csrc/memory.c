// memcpy, memmove, memset and memcmp: zig leaves out musl's own of the first two, musl compares byte by byte, and has the
// processor's own loop begin, which takes it a while, for a hundred bytes.
// Sixteen bytes at a time, which every x86-64 and every arm64 has; no loop for what is at most eight times that.
#include <stddef.h>
#include <stdint.h>

typedef uint8_t Block __attribute__((vector_size(16)));
typedef struct { Block value; } __attribute__((packed, may_alias)) AnyBlock;
typedef struct { uint64_t value; } __attribute__((packed, may_alias)) Any64;
typedef struct { uint32_t value; } __attribute__((packed, may_alias)) Any32;
typedef struct { uint16_t value; } __attribute__((packed, may_alias)) Any16;

#define GET(type, from) (((const type *)(from))->value)
#define PUT(type, to, what) (((type *)(to))->value = (what))
// Both ends, which may overlap each other: all is read before anything is written.
#define BOTH_ENDS(type, width)                        \
    do {                                              \
        const __typeof__(((type *)0)->value) head = GET(type, from), tail = GET(type, from + size - (width)); \
        PUT(type, to, head);                          \
        PUT(type, to + size - (width), tail);         \
    } while (0)

#ifdef __x86_64__
enum { LONG = 2048 };  // bytes from which on the processor's own loops are faster

static void fill(uint8_t *to, int value, size_t size) {
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(value) : "memory");
}

static void copy(uint8_t *to, const uint8_t *from, size_t size) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}
#else
enum { LONG = -1 };

static void fill(uint8_t *to, int value, size_t size) {}
static void copy(uint8_t *to, const uint8_t *from, size_t size) {}
#endif

static void *few(uint8_t *to, const uint8_t *from, size_t size) {
    if (size >= 8) {
        BOTH_ENDS(Any64, 8);
    } else if (size >= 4) {
        BOTH_ENDS(Any32, 4);
    } else if (size >= 2) {
        BOTH_ENDS(Any16, 2);
    } else if (size) {
        *to = *from;
    }
    return to;
}

// 33 to 128 bytes.
static void *some(uint8_t *to, const uint8_t *from, size_t size) {
    const uint8_t *end = from + size;
    const Block a = GET(AnyBlock, from), b = GET(AnyBlock, from + 16);
    const Block y = GET(AnyBlock, end - 32), z = GET(AnyBlock, end - 16);
    if (size > 64) {
        const Block c = GET(AnyBlock, from + 32), d = GET(AnyBlock, from + 48);
        const Block w = GET(AnyBlock, end - 64), x = GET(AnyBlock, end - 48);
        PUT(AnyBlock, to + 32, c);
        PUT(AnyBlock, to + 48, d);
        PUT(AnyBlock, to + size - 64, w);
        PUT(AnyBlock, to + size - 48, x);
    }
    PUT(AnyBlock, to, a);
    PUT(AnyBlock, to + 16, b);
    PUT(AnyBlock, to + size - 32, y);
    PUT(AnyBlock, to + size - 16, z);
    return to;
}

static void move64(uint8_t *to, const uint8_t *from) {
    const Block a = GET(AnyBlock, from), b = GET(AnyBlock, from + 16);
    const Block c = GET(AnyBlock, from + 32), d = GET(AnyBlock, from + 48);
    PUT(AnyBlock, to, a);
    PUT(AnyBlock, to + 16, b);
    PUT(AnyBlock, to + 32, c);
    PUT(AnyBlock, to + 48, d);
}

// From the front; the ends, which may overlap what is read between them, are read first and written last.
static void forward(uint8_t *to, const uint8_t *from, size_t size) {
    const uint8_t *end = from + size;
    const Block w = GET(AnyBlock, end - 64), x = GET(AnyBlock, end - 48);
    const Block y = GET(AnyBlock, end - 32), z = GET(AnyBlock, end - 16);
    uint8_t *last = to + size;
    const Block head = GET(AnyBlock, from);
    const size_t step = 16 - ((uintptr_t)to & 15);
    uint8_t *at = to + step;
    from += step;
    if (size >= (size_t)LONG && (uintptr_t)from - (uintptr_t)to >= 64) {
        copy(at, from, (size_t)(last - at));
        at = last;
    }
    for (; last - at > 64; at += 64, from += 64) move64(at, from);
    PUT(AnyBlock, to, head);
    PUT(AnyBlock, last - 64, w);
    PUT(AnyBlock, last - 48, x);
    PUT(AnyBlock, last - 32, y);
    PUT(AnyBlock, last - 16, z);
}

// From the end, where the target begins within the source.
static void backward(uint8_t *to, const uint8_t *from, size_t size) {
    const Block a = GET(AnyBlock, from), b = GET(AnyBlock, from + 16);
    const Block c = GET(AnyBlock, from + 32), d = GET(AnyBlock, from + 48);
    size_t left = size;
    for (; left > 64; left -= 64) move64(to + left - 64, from + left - 64);
    PUT(AnyBlock, to, a);
    PUT(AnyBlock, to + 16, b);
    PUT(AnyBlock, to + 32, c);
    PUT(AnyBlock, to + 48, d);
}

void *memmove(void *target, const void *source, size_t size) {
    uint8_t *to = target;
    const uint8_t *from = source;
    if (size <= 16) return few(to, from, size);
    if (size <= 32) {
        BOTH_ENDS(AnyBlock, 16);
    } else if (size <= 128) {
        some(to, from, size);
    } else if ((uintptr_t)to - (uintptr_t)from >= size) {
        forward(to, from, size);
    } else {
        backward(to, from, size);
    }
    return target;
}

void *memcpy(void *restrict target, const void *restrict source, size_t size) __attribute__((alias("memmove")));

void *memset(void *target, int value, size_t size) {
    uint8_t *to = target, *end = to + size;
    const Block block = (Block){} + (uint8_t)value;
    if (size < 16) {
        const uint64_t eight = (uint64_t)block[0] * 0x0101010101010101;
        if (size >= 8) {
            PUT(Any64, to, eight);
            PUT(Any64, end - 8, eight);
        } else if (size >= 4) {
            PUT(Any32, to, (uint32_t)eight);
            PUT(Any32, end - 4, (uint32_t)eight);
        } else if (size) {
            *to = to[size / 2] = end[-1] = (uint8_t)value;
        }
        return target;
    }
    if (size >= (size_t)LONG) {
        fill(to, value, size);
        return target;
    }
    PUT(AnyBlock, to, block);
    for (uint8_t *at = to + 16 - ((uintptr_t)to & 15); end - at > 16; at += 16) PUT(AnyBlock, at, block);
    PUT(AnyBlock, end - 16, block);
    return target;
}

int memcmp(const void *one, const void *other, size_t size) {
    const uint8_t *a = one, *b = other;
    for (; size >= 8 && GET(Any64, a) == GET(Any64, b); size -= 8) a += 8, b += 8;
    for (; size; --size, ++a, ++b)
        if (*a != *b) return *a - *b;
    return 0;
}

int bcmp(const void *one, const void *other, size_t size) __attribute__((alias("memcmp")));
