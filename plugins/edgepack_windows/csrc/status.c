// What a file is.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "kstat.h"
#include "win32.h"

enum { BETWEEN = 11644473600 };  // seconds from 1601, where Windows begins, to 1970

static void fill(struct kstat *status, const FileInfo *info) {
	int folder = !!(info->attributes & ATTRIBUTE_DIRECTORY), locked = !!(info->attributes & ATTRIBUTE_READONLY);
	status->st_mode = folder ? S_IFDIR | 0755 : S_IFREG | (locked ? 0444 : 0644);
	status->st_dev = info->volume;
	status->st_ino = (uint64_t)info->index_high << 32 | info->index_low;
	status->st_nlink = info->links;
	status->st_size = folder ? 0 : (off_t)((uint64_t)info->size_high << 32 | info->size_low);
	status->st_blksize = 4096;
	status->st_blocks = (status->st_size + 511) / 512;
	status->st_mtime_sec = (long)(info->written / 10000000) - BETWEEN;
	status->st_mtime_nsec = (long)(info->written % 10000000) * 100;
	status->st_atime_sec = status->st_ctime_sec = status->st_mtime_sec;
}

static long of_handle(Handle handle, struct kstat *status, int follow) {
	FileInfo info;
	memset(status, 0, sizeof *status);
	uint32_t type = win32.GetFileType(handle);
	if (type == TYPE_PIPE || type == TYPE_CHAR) {
		status->st_mode = (type == TYPE_PIPE ? S_IFIFO : S_IFCHR) | 0600;
		return 0;
	}
	if (!win32.GetFileInformationByHandle(handle, &info)) {
		// Opened to be written to alone, and not to be asked of.
		status->st_mode = S_IFREG | 0200;
		return type == TYPE_DISK ? 0 : -EBADF;
	}
	fill(status, &info);
	// A file that is kept in another way (deduplicated, in a cloud) has the attribute, too, where it is followed.
	if (!follow && info.attributes & ATTRIBUTE_REPARSE && !(info.attributes & ATTRIBUTE_DIRECTORY)) status->st_mode = S_IFLNK | 0777;
	return 0;
}

long __status_of(const char *path, void *status, int follow) {
	long failure;
	Wide *wide = __wide_path(path, &failure);
	if (!wide) return failure;
	Handle handle = win32.CreateFileW(wide, 0, FILE_SHARE_ALL, NULL, OPEN_EXISTING_,
	                                  BACKUP_SEMANTICS | (follow ? 0 : OPEN_REPARSE_POINT), NULL);
	failure = __failed();
	__free_block(wide);
	if (handle == (Handle)-1) return failure;
	failure = of_handle(handle, status, follow);
	win32.CloseHandle(handle);
	return failure;
}

long __status_of_file(int file, void *status) {
	Handle handle = __file_handle(file);
	return handle == (Handle)-1 ? -EBADF : of_handle(handle, status, 1);
}
