// What of Windows' interface is called, in types of our own: Windows' headers take `long` for 32 bits, this program for 64.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define WINDOWS __attribute__((ms_abi))
#define HIDDEN __attribute__((visibility("hidden")))

typedef void *Handle;
typedef uint16_t Wide;

typedef struct { uint32_t attributes; uint64_t created, accessed, written; uint32_t volume, size_high, size_low, links, index_high, index_low; } __attribute__((packed, aligned(4))) FileInfo;
typedef struct { uint32_t attributes; uint64_t created, accessed, written; uint32_t size_high, size_low, reserved[2]; Wide name[260], short_name[14]; } __attribute__((packed, aligned(4))) FindData;
typedef struct { int16_t width, height, x, y; uint16_t attributes; int16_t left, top, right, bottom, most_x, most_y; } ConsoleInfo;
typedef struct { uint32_t size, load; uint64_t total, free, total_page, free_page, total_virtual, free_virtual, extended; } MemoryStatus;
typedef struct { void *place, *base; uint32_t first_protect, partition; size_t size; uint32_t state, protect, type; } MemoryInfo;
typedef struct { uint64_t internal[2]; uint64_t offset; Handle event; } Overlapped;
typedef struct { uint32_t code, flags; void *next, *address; uint32_t count; uint64_t information[15]; } ExceptionRecord;
typedef struct { ExceptionRecord *record; void *context; } ExceptionPointers;
typedef int32_t(WINDOWS *Vectored)(ExceptionPointers *);
typedef uint32_t(WINDOWS *ThreadStart)(void *);
typedef int(WINDOWS *ControlHandler)(uint32_t);

enum {
	GENERIC_READ_ = (int)0x80000000, GENERIC_WRITE_ = 0x40000000,
	FILE_SHARE_ALL = 7,
	CREATE_NEW_ = 1, CREATE_ALWAYS_ = 2, OPEN_EXISTING_ = 3, OPEN_ALWAYS_ = 4, TRUNCATE_EXISTING_ = 5,
	ATTRIBUTE_NORMAL = 0x80, BACKUP_SEMANTICS = 0x02000000, OPEN_REPARSE_POINT = 0x00200000,
	ATTRIBUTE_READONLY = 1, ATTRIBUTE_DIRECTORY = 0x10, ATTRIBUTE_REPARSE = 0x400,
	TYPE_DISK = 1, TYPE_CHAR = 2, TYPE_PIPE = 3,
	MEM_COMMIT_ = 0x1000, MEM_RESERVE_ = 0x2000, MEM_DECOMMIT_ = 0x4000, MEM_RELEASE_ = 0x8000, MEM_FREE_ = 0x10000,
	MEM_MAPPED_ = 0x40000,
	PAGE_NOACCESS_ = 1, PAGE_READONLY_ = 2, PAGE_READWRITE_ = 4, PAGE_WRITECOPY_ = 8,
	FILE_MAP_COPY_ = 1, FILE_MAP_READ_ = 4,
	UTF8 = 65001, STRICT_UTF8 = 8,
	INFINITE_ = -1, SUSPENDED = 4, ZEROED = 8,
};

// The slots that Windows fills before the program starts: the linker's name for what is written once, and the table that
// pe.py makes the imports of, in the same order. Where a library begins there is an empty slot.
struct Imports {
#define DLL(name, file) void *before_##name;
#define IMPORT(type, name, arguments) type(WINDOWS *name) arguments;
#include "imports.h"
#undef DLL
#undef IMPORT
	void *end;
};
extern HIDDEN struct Imports win32;

HIDDEN long __errno_of(uint32_t code);  // -errno
HIDDEN long __failed(void);             // for what went wrong last

enum { LONGEST = 32768 };
// A path for Windows in a block of the heap; NULL with `*failure` set (-errno).
HIDDEN Wide *__wide_path(const char *path, long *failure);
HIDDEN void __free_block(void *block);
HIDDEN void *__block(size_t size);
// UTF-8 in a block of the heap, `/` for `\`.
HIDDEN char *__narrow(const Wide *text, int slashes);

HIDDEN void __deliver(int signal);
#ifndef LIBRARY
HIDDEN void __end_process(uint32_t code) __attribute__((noreturn));
#endif
HIDDEN long __signal_action(int number, const void *action, void *old);
HIDDEN void __use_thread_pointer(void);

#ifdef LIBRARY
// What a library makes of its own, and leaves none of: see start.c.
HIDDEN int __make_heap(void);
HIDDEN void __drop_heap(void);
HIDDEN void __drop_maps(void);
HIDDEN void __drop_files(void);
HIDDEN int __begin_threads(void);
HIDDEN void __share_threads(void);
HIDDEN void __drop_thread(void);
HIDDEN void __end_threads(void);
HIDDEN void __stop(void) __attribute__((noreturn));
#endif

HIDDEN long __file_open(const char *path, int flags);
HIDDEN long __file_close(int file);
HIDDEN long __file_read(int file, void *data, size_t size);
HIDDEN long __file_write(int file, const void *data, size_t size);
HIDDEN long __file_write_at(int file, const void *data, size_t size, long place);
HIDDEN long __file_read_at(int file, void *data, size_t size, long place);
HIDDEN long __file_seek(int file, long distance, int from);
HIDDEN long __file_control(int file, int command, long argument);
HIDDEN long __file_terminal(int file, long request, void *argument);
HIDDEN Handle __file_handle(int file);
HIDDEN long __file_list(int file, void *entries, size_t size);
HIDDEN int __file_new(Handle handle, const Wide *folder);

HIDDEN long __status_of(const char *path, void *status, int follow);
HIDDEN long __status_of_file(int file, void *status);
HIDDEN long __map(void *place, size_t size, int protect, int flags, int file, long offset);
HIDDEN long __unmap(void *place, size_t size);
HIDDEN long __protect(void *place, size_t size, int protect);
HIDDEN long __advise(void *place, size_t size, int advice);
HIDDEN long __clock(int which, long *time);
HIDDEN long __sleep(const long *time);
HIDDEN long __futex(volatile int *place, int operation, int value, const long *timeout);
HIDDEN void __end_thread(void) __attribute__((noreturn));
