// All that the program asks of Windows, or the library (LIBRARY). What is listed here is imported, whether it is called or not.
DLL(kernel32, "KERNEL32.dll")
#ifdef LIBRARY
// A library listens to nothing, reads no command line and does not end the process that it is in.
IMPORT(int, FreeEnvironmentStringsW, (Wide *strings))
IMPORT(int, FreeLibrary, (Handle module))
IMPORT(void, FreeLibraryAndExitThread, (Handle module, uint32_t code))
IMPORT(int, GetModuleHandleExW, (uint32_t flags, const void *inside, Handle *module))
IMPORT(Handle, HeapCreate, (uint32_t flags, size_t size, size_t most))
IMPORT(int, HeapDestroy, (Handle heap))
IMPORT(int, TlsFree, (uint32_t index))
#else
IMPORT(void *, AddVectoredExceptionHandler, (uint32_t first, Vectored handler))
#endif
IMPORT(int, CloseHandle, (Handle handle))
IMPORT(Handle, CreateFileMappingW, (Handle file, void *security, uint32_t protect, uint32_t high, uint32_t low, const Wide *name))
IMPORT(Handle, CreateFileW, (const Wide *path, uint32_t access, uint32_t share, void *security, uint32_t how, uint32_t flags, Handle like))
IMPORT(Handle, CreateThread, (void *security, size_t stack, ThreadStart start, void *argument, uint32_t flags, uint32_t *id))
IMPORT(int, CreateDirectoryW, (const Wide *path, void *security))
IMPORT(int, DeleteFileW, (const Wide *path))
#ifndef LIBRARY
IMPORT(void, ExitThread, (uint32_t code))
#endif
IMPORT(int, FindClose, (Handle search))
IMPORT(Handle, FindFirstFileW, (const Wide *pattern, FindData *found))
IMPORT(int, FindNextFileW, (Handle search, FindData *found))
#ifndef LIBRARY
IMPORT(Wide *, GetCommandLineW, (void))
#endif
IMPORT(int, GetConsoleMode, (Handle console, uint32_t *mode))
IMPORT(int, GetConsoleScreenBufferInfo, (Handle console, ConsoleInfo *info))
IMPORT(uint32_t, GetCurrentDirectoryW, (uint32_t size, Wide *path))
IMPORT(Handle, GetCurrentProcess, (void))
IMPORT(uint32_t, GetCurrentProcessId, (void))
IMPORT(Handle, GetCurrentThread, (void))
IMPORT(uint32_t, GetCurrentThreadId, (void))
IMPORT(Wide *, GetEnvironmentStringsW, (void))
IMPORT(int, GetFileInformationByHandle, (Handle file, FileInfo *info))
IMPORT(uint32_t, GetFileType, (Handle file))
IMPORT(uint32_t, GetFinalPathNameByHandleW, (Handle file, Wide *path, uint32_t size, uint32_t flags))
IMPORT(uint32_t, GetFullPathNameW, (const Wide *path, uint32_t size, Wide *full, Wide **last))
IMPORT(uint32_t, GetLastError, (void))
#ifndef LIBRARY
IMPORT(uint32_t, GetModuleFileNameW, (Handle module, Wide *path, uint32_t size))
#endif
IMPORT(int, GetProcessAffinityMask, (Handle process, uint64_t *own, uint64_t *system))
#ifndef LIBRARY
IMPORT(Handle, GetProcessHeap, (void))
#endif
IMPORT(int, GetProcessTimes, (Handle process, uint64_t *begun, uint64_t *ended, uint64_t *kernel, uint64_t *user))
IMPORT(Handle, GetStdHandle, (uint32_t which))
IMPORT(void, GetSystemTimePreciseAsFileTime, (uint64_t *time))
IMPORT(int, GetThreadTimes, (Handle thread, uint64_t *begun, uint64_t *ended, uint64_t *kernel, uint64_t *user))
IMPORT(int, GlobalMemoryStatusEx, (MemoryStatus *status))
IMPORT(void *, HeapAlloc, (Handle heap, uint32_t flags, size_t size))
IMPORT(int, HeapFree, (Handle heap, uint32_t flags, void *block))
IMPORT(void *, MapViewOfFile, (Handle mapping, uint32_t access, uint32_t high, uint32_t low, size_t size))
IMPORT(int, MoveFileExW, (const Wide *from, const Wide *to, uint32_t flags))
IMPORT(int, MultiByteToWideChar, (uint32_t page, uint32_t flags, const char *from, int size, Wide *to, int room))
IMPORT(int, QueryPerformanceCounter, (int64_t *count))
IMPORT(int, QueryPerformanceFrequency, (int64_t *frequency))
IMPORT(int, ReadConsoleW, (Handle console, Wide *text, uint32_t size, uint32_t *done, void *control))
IMPORT(int, ReadFile, (Handle file, void *data, uint32_t size, uint32_t *done, Overlapped *at))
IMPORT(uint32_t, ResumeThread, (Handle thread))
#ifndef LIBRARY
IMPORT(int, SetConsoleCtrlHandler, (ControlHandler handler, int add))
#endif
IMPORT(int, SetFilePointerEx, (Handle file, int64_t distance, int64_t *place, uint32_t from))
IMPORT(void, Sleep, (uint32_t milliseconds))
#ifndef LIBRARY
IMPORT(int, TerminateProcess, (Handle process, uint32_t code))
#endif
IMPORT(uint32_t, TlsAlloc, (void))
IMPORT(void *, TlsGetValue, (uint32_t index))
IMPORT(int, TlsSetValue, (uint32_t index, void *value))
IMPORT(int, UnmapViewOfFile, (const void *place))
IMPORT(void *, VirtualAlloc, (void *place, size_t size, uint32_t how, uint32_t protect))
IMPORT(int, VirtualFree, (void *place, size_t size, uint32_t how))
IMPORT(int, VirtualProtect, (void *place, size_t size, uint32_t protect, uint32_t *before))
IMPORT(size_t, VirtualQuery, (const void *place, MemoryInfo *info, size_t size))
IMPORT(int, VirtualUnlock, (void *place, size_t size))
IMPORT(int, WideCharToMultiByte, (uint32_t page, uint32_t flags, const Wide *from, int size, char *to, int room, const char *other, int *used))
IMPORT(int, WriteConsoleW, (Handle console, const Wide *text, uint32_t size, uint32_t *done, void *reserved))
IMPORT(int, WriteFile, (Handle file, const void *data, uint32_t size, uint32_t *done, Overlapped *at))
DLL(synch, "api-ms-win-core-synch-l1-2-0.dll")
IMPORT(int, WaitOnAddress, (volatile void *place, const void *value, size_t size, uint32_t milliseconds))
IMPORT(void, WakeByAddressAll, (void *place))
IMPORT(void, WakeByAddressSingle, (void *place))
