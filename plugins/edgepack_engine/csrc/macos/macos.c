#include <mach-o/dyld.h>
#include <sys/auxv.h>
#include <sys/sysctl.h>

static int has(const char *name) {
    int found = 0;
    size_t length = sizeof found;
    return sysctlbyname(name, &found, &length, 0, 0) == 0 && found;
}

// The path that the program was started by, and whether the processor multiplies bytes and matrices of them (arm64; Linux's bits).
unsigned long getauxval(unsigned long type) {
    static char path[4096];
    unsigned size = sizeof path;
    if (type == AT_EXECFN) return _NSGetExecutablePath(path, &size) == 0 ? (unsigned long)path : 0;
    if (type == AT_HWCAP && has("hw.optional.arm.FEAT_DotProd")) return 1ul << 20;
    if (type == AT_HWCAP2 && has("hw.optional.arm.FEAT_I8MM")) return 1ul << 13;
    return 0;
}
