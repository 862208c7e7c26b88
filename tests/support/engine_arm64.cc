// The kernels of arm64, called by engine_arm64.py through qemu: PROGRAM base|dotprod|i8mm. A call on standard input is the kernel's number, its task, and the
// arrays that the task names; the answer is the arrays as they are then. Each ends where a page that nobody may read begins.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "kernels.h"

namespace embed {
extern const Kernels base_kernels, dotprod_kernels, i8mm_kernels;
}

namespace {

constexpr size_t PAGE = 4096, MOST = 16, LARGEST_TASK = 256;

struct Array {
    uint8_t *room = nullptr, *first = nullptr;
    size_t pages = 0, size = 0;

    void grow(size_t wanted) {
        const size_t needed = (wanted + PAGE - 1) / PAGE;
        if (!room || needed != pages) {
            if (room) munmap(room, (pages + 1) * PAGE);
            void *made = mmap(nullptr, (needed + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (made == MAP_FAILED || mprotect(static_cast<uint8_t *>(made) + needed * PAGE, PAGE, PROT_NONE)) abort();
            room = static_cast<uint8_t *>(made), pages = needed;
        }
        first = room + pages * PAGE - wanted, size = wanted;
    }
};

// Whether there is another call.
bool take(void *to, size_t size) { return fread(to, 1, size, stdin) == size; }
uint64_t number() {
    uint64_t made;
    if (!take(&made, sizeof made)) abort();
    return made;
}

template <class Task> void call(void (*kernel)(const Task &), const uint8_t *task) { kernel(*reinterpret_cast<const Task *>(task)); }

}  // namespace

int main(int, char **words) {
    const bool base = !strcmp(words[1], "base"), dotprod = !strcmp(words[1], "dotprod");
    const embed::Kernels &kernels = base ? embed::base_kernels : dotprod ? embed::dotprod_kernels : embed::i8mm_kernels;
    static Array arrays[MOST];
    alignas(16) uint8_t task[LARGEST_TASK];
    for (uint64_t kernel; take(&kernel, sizeof kernel);) {
        const uint64_t size = number(), count = number(), places = number();
        if (size > LARGEST_TASK || count > MOST || !take(task, size)) abort();
        for (size_t at = 0; at < count; at++) {
            arrays[at].grow(number());
            if (!take(arrays[at].first, arrays[at].size)) abort();
        }
        for (size_t at = 0; at < places; at++) {
            const uint64_t field = number(), array = number(), offset = number();
            const uint8_t *place = arrays[array].first + offset;
            memcpy(task + field, &place, sizeof place);
        }
        switch (kernel) {
            case 0: call(kernels.norm, task); break;
            case 1: call(kernels.quantize, task); break;
            case 2: call(kernels.product, task); break;
            case 3: call(kernels.attention, task); break;
            case 4: call(kernels.gate, task); break;
            case 5: call(kernels.rotate, task); break;
            case 6: call(kernels.norm_heads, task); break;
            default: abort();
        }
        for (size_t at = 0; at < count; at++) fwrite(arrays[at].first, 1, arrays[at].size, stdout);
        fflush(stdout);
    }
}
