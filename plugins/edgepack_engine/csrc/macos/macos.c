#include <mach-o/dyld.h>
#include <sys/auxv.h>
#include <sys/sysctl.h>

// The path that the program was started by, and whether the processor multiplies bytes (arm64; Linux's bit of it).
unsigned long getauxval(unsigned long type) {
    static char path[4096];
    unsigned size = sizeof path;
    int has = 0;
    size_t length = sizeof has;
    if (type == AT_EXECFN) return _NSGetExecutablePath(path, &size) == 0 ? (unsigned long)path : 0;
    if (type == AT_HWCAP && sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &length, 0, 0) == 0 && has) return 1ul << 20;
    return 0;
}
