// Windows' errors as Linux'.
#include <errno.h>

#include "win32.h"

static const struct { uint16_t code; uint8_t number; } known[] = {
	{1, EINVAL}, {2, ENOENT}, {3, ENOENT}, {4, EMFILE}, {5, EACCES}, {6, EBADF}, {8, ENOMEM}, {14, ENOMEM},
	{15, ENOENT}, {17, EXDEV}, {18, ENOENT}, {19, EROFS}, {29, EIO}, {30, EIO}, {32, EBUSY}, {33, EACCES},
	{38, 0}, {39, ENOSPC}, {53, ENOENT}, {67, ENOENT}, {80, EEXIST}, {82, EACCES}, {87, EINVAL}, {109, EPIPE},
	{112, ENOSPC}, {123, ENOENT}, {126, ENOENT}, {131, EINVAL}, {145, ENOTEMPTY}, {161, ENOENT}, {183, EEXIST},
	{206, ENAMETOOLONG}, {232, EPIPE}, {233, EPIPE}, {267, ENOTDIR}, {1113, EILSEQ}, {1314, EPERM},
	{1450, ENOMEM}, {1455, ENOMEM}, {1460, ETIMEDOUT}, {1920, EACCES},
};

long __errno_of(uint32_t code) {
	for (size_t index = 0; index < sizeof known / sizeof *known; index++)
		if (known[index].code == code) return -(long)known[index].number;
	return -EIO;
}

long __failed(void) { return __errno_of(win32.GetLastError()); }
