// What the program asks of Linux and macOS has otherwise. Included before each source.
#pragma once
#include <sched.h>
#include <unistd.h>

typedef struct {
    int count;
} cpu_set_t;
#define CPU_ZERO(set) ((set)->count = 0)
#define CPU_COUNT(set) ((set)->count)

static inline int sched_getaffinity(int process, size_t size, cpu_set_t *set) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    set->count = process == 0 && size && online > 0 ? (int)online : 1;
    return 0;
}
