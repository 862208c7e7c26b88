// Files, pipes and consoles by small numbers.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "win32.h"

enum { FILES = 256, NONE_YET = 3 };
#define NOTHING ((Handle)-1)

typedef struct {
	_Atomic(Handle) handle;  // null: free
	Handle search;           // of a folder that is read
	int append, begun;
	char kept[4];  // the beginning of a character for a console
	int kept_size;
	Wide *folder;
} File;

static File files[FILES];
static atomic_int begun;

static File *known(int number) {
	if (!atomic_load(&begun)) {
		for (int index = 0; index < 3; index++) {
			Handle handle = win32.GetStdHandle((uint32_t)(-10 - index));
			files[index].handle = handle == NOTHING ? NULL : handle;
		}
		atomic_store(&begun, 1);
	}
	return number >= 0 && number < FILES && files[number].handle ? &files[number] : NULL;
}

Handle __file_handle(int number) {
	File *file = known(number);
	return file ? file->handle : NOTHING;
}

int __file_new(Handle handle, const Wide *folder) {
	known(0);
	for (int index = NONE_YET; index < FILES; index++) {
		Handle free = NULL;
		if (!atomic_compare_exchange_strong(&files[index].handle, &free, handle)) continue;
		File *file = &files[index];
		file->search = NULL;
		file->append = file->begun = file->kept_size = 0;
		file->folder = (Wide *)folder;
		return index;
	}
	return -EMFILE;
}

#ifdef LIBRARY
void __drop_files(void) {
	for (int index = NONE_YET; index < FILES; index++)
		if (files[index].handle) __file_close(index);
}
#endif

static int is_folder(Handle handle) {
	FileInfo info;
	return win32.GetFileInformationByHandle(handle, &info) && info.attributes & ATTRIBUTE_DIRECTORY;
}

static int is_folder_at(const Wide *path) {
	Handle handle = win32.CreateFileW(path, 0, FILE_SHARE_ALL, NULL, OPEN_EXISTING_, BACKUP_SEMANTICS, NULL);
	int folder = handle != NOTHING && is_folder(handle);
	if (handle != NOTHING) win32.CloseHandle(handle);
	return folder;
}

long __file_open(const char *path, int flags) {
	static const uint32_t access[] = {[O_RDONLY] = (uint32_t)GENERIC_READ_, [O_WRONLY] = GENERIC_WRITE_,
	                                  [O_RDWR] = (uint32_t)GENERIC_READ_ | GENERIC_WRITE_, 0};
	long failure;
	Wide *wide = __wide_path(path, &failure);
	if (!wide) return failure;
	uint32_t how = flags & O_CREAT ? flags & O_EXCL ? CREATE_NEW_ : flags & O_TRUNC ? CREATE_ALWAYS_ : OPEN_ALWAYS_
	               : flags & O_TRUNC ? TRUNCATE_EXISTING_ : OPEN_EXISTING_;
	Handle handle = win32.CreateFileW(wide, access[flags & O_ACCMODE], FILE_SHARE_ALL, NULL, how,
	                                  ATTRIBUTE_NORMAL | BACKUP_SEMANTICS, NULL);
	failure = __failed();
	if (handle == NOTHING && (flags & O_ACCMODE) != O_RDONLY && is_folder_at(wide)) failure = -EISDIR;
	int folder = handle != NOTHING && is_folder(handle);
	if (handle != NOTHING && folder && (flags & O_ACCMODE) != O_RDONLY) failure = -EISDIR;
	else if (handle != NOTHING && !folder && flags & O_DIRECTORY) failure = -ENOTDIR;
	else if (handle != NOTHING && (failure = __file_new(handle, folder ? wide : NULL)) >= 0) {
		if (!folder) __free_block(wide);
		files[failure].append = !!(flags & O_APPEND);
		return failure;
	}
	if (handle != NOTHING) win32.CloseHandle(handle);
	__free_block(wide);
	return failure;
}

long __file_close(int number) {
	File *file = known(number);
	if (!file) return -EBADF;
	if (file->search) win32.FindClose(file->search);
	__free_block(file->folder);
	file->search = NULL;
	file->folder = NULL;
	return win32.CloseHandle(atomic_exchange(&file->handle, NULL)) ? 0 : __failed();
}

static int is_console(Handle handle) {
	uint32_t mode;
	return win32.GetFileType(handle) == TYPE_CHAR && win32.GetConsoleMode(handle, &mode);
}

// A line as UTF-8; Ctrl-Z at its beginning ends the input.
static long read_console(Handle handle, char *data, size_t size) {
	Wide text[1024];
	uint32_t done = 0, room = (uint32_t)(size / 3 < 1023 ? size / 3 : 1023);
	if (!win32.ReadConsoleW(handle, text, room ? room : 1, &done, NULL)) return __failed();
	// The other half of a character.
	uint32_t more = 0;
	if (done && (text[done - 1] & 0xFC00) == 0xD800 && win32.ReadConsoleW(handle, text + done, 1, &more, NULL)) done += more;
	if (!done || text[0] == 26) return 0;
	return win32.WideCharToMultiByte(UTF8, 0, text, (int)done, data, (int)size, NULL, NULL);
}

static long read_handle(Handle handle, void *data, size_t size, Overlapped *at) {
	uint32_t done = 0, most = size > 1 << 30 ? 1 << 30 : (uint32_t)size;
	if (win32.ReadFile(handle, data, most, &done, at)) return done;
	uint32_t code = win32.GetLastError();
	return code == 109 || code == 38 ? 0 : __errno_of(code);  // the other end is closed; the end of the file
}

long __file_read(int number, void *data, size_t size) {
	File *file = known(number);
	if (!file) return -EBADF;
	if (file->folder) return -EISDIR;
	if (!size) return 0;
	return is_console(file->handle) ? read_console(file->handle, data, size) : read_handle(file->handle, data, size, NULL);
}

static size_t whole_characters(const char *text, size_t size) {
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		unsigned char byte = (unsigned char)text[size - back];
		if ((byte & 0xC0) == 0x80) continue;
		size_t wanted = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
		return wanted > back ? size - back : size;
	}
	return size;
}

static long show(Handle handle, const char *text, size_t size) {
	Wide wide[2048];
	while (size) {
		size_t part = size < 2000 ? size : whole_characters(text, 2000);
		int count = win32.MultiByteToWideChar(UTF8, 0, text, (int)part, wide, 2048);
		for (uint32_t at = 0, done; at < (uint32_t)count; at += done)
			if (!win32.WriteConsoleW(handle, wide + at, (uint32_t)count - at, &done, NULL) || !done) return __failed();
		text += part;
		size -= part;
	}
	return 0;
}

// A character that is cut waits for its end.
static long write_console(File *file, const char *data, size_t size) {
	char joined[2048];
	const char *text = data;
	size_t left = size;
	while (left) {
		size_t part = left < 1024 ? left : 1024;
		memcpy(joined, file->kept, (size_t)file->kept_size);
		memcpy(joined + file->kept_size, text, part);
		size_t all = (size_t)file->kept_size + part, whole = whole_characters(joined, all);
		long failure = show(file->handle, joined, whole);
		if (failure) return failure;
		file->kept_size = (int)(all - whole);
		memcpy(file->kept, joined + whole, all - whole);
		text += part;
		left -= part;
	}
	return (long)size;
}

static long write_handle(Handle handle, const void *data, size_t size, Overlapped *at) {
	uint32_t done = 0, most = size > 1 << 30 ? 1 << 30 : (uint32_t)size;
	if (win32.WriteFile(handle, data, most, &done, at)) return done;
	long failure = __failed();
	if (failure == -EPIPE) __deliver(13);  // SIGPIPE: ends us, unless someone listens
	return failure;
}

long __file_write(int number, const void *data, size_t size) {
	File *file = known(number);
	if (!file) return -EBADF;
	if (!size) return 0;
	if (is_console(file->handle)) return write_console(file, data, size);
	if (file->append) win32.SetFilePointerEx(file->handle, 0, NULL, 2);
	return write_handle(file->handle, data, size, NULL);
}

// Windows moves the place where the next write goes, Linux does not.
long __file_write_at(int number, const void *data, size_t size, long place) {
	File *file = known(number);
	if (!file) return -EBADF;
	Overlapped at = {.offset = (uint64_t)place};
	int64_t before = 0, end = 0, after = 0;
	if (!win32.SetFilePointerEx(file->handle, 0, &before, 1) || !win32.SetFilePointerEx(file->handle, 0, &end, 2)) return -ESPIPE;
	long done = write_handle(file->handle, data, size, &at);
	win32.SetFilePointerEx(file->handle, 0, &after, 2);
	win32.SetFilePointerEx(file->handle, before, NULL, 0);
	// Where others opened it to append alone, that went to the end; nothing says so before.
	return after > end && after > place + done ? -ESPIPE : done;
}

long __file_read_at(int number, void *data, size_t size, long place) {
	File *file = known(number);
	if (!file) return -EBADF;
	Overlapped at = {.offset = (uint64_t)place};
	int64_t before = 0;
	if (!win32.SetFilePointerEx(file->handle, 0, &before, 1)) return -ESPIPE;
	long done = read_handle(file->handle, data, size, &at);
	win32.SetFilePointerEx(file->handle, before, NULL, 0);
	return done;
}

long __file_seek(int number, long distance, int from) {
	File *file = known(number);
	if (!file) return -EBADF;
	if (file->folder && !distance && !from) {
		if (file->search) win32.FindClose(file->search);
		file->search = NULL;
		file->begun = 0;
		return 0;
	}
	int64_t place = 0;
	if (win32.GetFileType(file->handle) != TYPE_DISK) return -ESPIPE;
	return win32.SetFilePointerEx(file->handle, distance, &place, (uint32_t)from) ? place : __failed();
}

long __file_control(int number, int command, long argument) {
	File *file = known(number);
	if (!file) return -EBADF;
	if (command == F_GETFL) return O_RDWR | (file->append ? O_APPEND : 0);
	return command == F_GETFD || command == F_SETFD || command == F_SETFL ? 0 : -EINVAL;
}

long __file_terminal(int number, long request, void *argument) {
	File *file = known(number);
	if (!file) return -EBADF;
	if (request != TIOCGWINSZ || !is_console(file->handle)) return -ENOTTY;
	struct winsize *size = argument;
	ConsoleInfo info;
	memset(size, 0, sizeof *size);
	if (win32.GetConsoleScreenBufferInfo(file->handle, &info)) {
		size->ws_col = (unsigned short)(info.right - info.left + 1);
		size->ws_row = (unsigned short)(info.bottom - info.top + 1);
	}
	return 0;
}

// A folder's entries, as getdents64 gives them: one at a time is enough.
long __file_list(int number, void *entries, size_t size) {
	File *file = known(number);
	if (!file || !file->folder) return file ? -ENOTDIR : -EBADF;
	FindData found;
	if (!file->begun) {
		size_t length = 0;
		while (file->folder[length]) length++;
		Wide *pattern = __block((length + 3) * sizeof(Wide));
		if (!pattern) return -ENOMEM;
		memcpy(pattern, file->folder, length * sizeof(Wide));
		pattern[length] = '\\';
		pattern[length + 1] = '*';
		file->search = win32.FindFirstFileW(pattern, &found);
		__free_block(pattern);
		file->begun = 1;
		if (file->search == NOTHING) {
			file->search = NULL;
			return __failed();
		}
	} else if (!file->search || !win32.FindNextFileW(file->search, &found)) {
		return 0;
	}
	char *name = __narrow(found.name, 0);
	struct dirent *entry = entries;
	size_t length = name ? strlen(name) : 0, whole = (offsetof(struct dirent, d_name) + length + 1 + 7) & ~(size_t)7;
	if (!name || whole > size) {
		__free_block(name);
		return name ? -EINVAL : -ENOMEM;
	}
	memset(entry, 0, whole);
	entry->d_ino = 1;
	entry->d_reclen = (unsigned short)whole;
	entry->d_type = found.attributes & ATTRIBUTE_DIRECTORY ? DT_DIR : DT_REG;
	memcpy(entry->d_name, name, length + 1);
	__free_block(name);
	return (long)whole;
}
