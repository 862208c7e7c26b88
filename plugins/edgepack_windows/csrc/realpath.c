// A path in full, through links: Windows says it of an open file.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "win32.h"

enum { PREFIX = 4, SHARE = 8 };  // of `\\?\C:\...`, of `\\?\UNC\server\...`

char *realpath(const char *restrict path, char *restrict resolved) {
	long failure = -ENOENT;
	Wide *wide = path ? __wide_path(path, &failure) : NULL;
	Handle file = wide ? win32.CreateFileW(wide, 0, FILE_SHARE_ALL, NULL, OPEN_EXISTING_, BACKUP_SEMANTICS, NULL) : (Handle)-1;
	if (wide && file == (Handle)-1) failure = __failed();
	__free_block(wide);
	errno = (int)-failure;
	if (file == (Handle)-1) return NULL;
	Wide *full = __block(LONGEST * sizeof(Wide));
	uint32_t size = full ? win32.GetFinalPathNameByHandleW(file, full, LONGEST, 0) : 0;
	failure = full ? __failed() : -ENOMEM;
	win32.CloseHandle(file);
	char *made = size ? __narrow(full, 1) : NULL, *found = NULL;
	__free_block(full);
	if (made) {
		int share = !strncmp(made, "//?/UNC/", SHARE);
		char *path_of = made + (share ? SHARE - 2 : !strncmp(made, "//?/", PREFIX) ? PREFIX : 0);
		if (share) *path_of = '/';
		size_t length = strlen(path_of) + 1;
		found = resolved ? resolved : malloc(length);
		if (found) memcpy(found, path_of, length);
		__free_block(made);
	} else {
		errno = (int)-failure;
	}
	return found;
}
