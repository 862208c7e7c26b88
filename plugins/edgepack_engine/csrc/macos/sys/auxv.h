// What Linux tells a program when it starts, as macOS says it (macos.c).
#pragma once
#define AT_HWCAP 16
#define AT_HWCAP2 26
#define AT_EXECFN 31
#ifdef __cplusplus
extern "C"
#endif
unsigned long getauxval(unsigned long type);
