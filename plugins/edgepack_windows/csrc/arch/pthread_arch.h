// In the place of musl's own: Windows keeps no thread pointer in a register for us.
__attribute__((__visibility__("hidden"))) uintptr_t __thread_pointer(void);

static inline uintptr_t __get_tp() { return __thread_pointer(); }

#define MC_PC gregs[REG_RIP]
