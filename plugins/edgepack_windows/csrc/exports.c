// The library's functions as Windows calls them. The compiler keeps what a caller of Windows has in its registers; how numbers
// are rounded is kept here. pe.py makes the exports of both tables, which are in the same order.
#include "mode.h"
#include "win32.h"

#define EXPORT(type, name, parameters, arguments)  \
	type name parameters;                           \
	static WINDOWS type call_##name parameters {    \
		Mode before = enter_mode();                 \
		type made = name arguments;                 \
		set_mode(before);                           \
		return made;                                \
	}
#define EXPORT_VOID(name, parameters, arguments)   \
	void name parameters;                           \
	static WINDOWS void call_##name parameters {    \
		Mode before = enter_mode();                 \
		name arguments;                             \
		set_mode(before);                           \
	}
#include "exports.h"
#undef EXPORT
#undef EXPORT_VOID

#define EXPORT(type, name, parameters, arguments) (void *)call_##name,
#define EXPORT_VOID(name, parameters, arguments) (void *)call_##name,
__attribute__((section("win32.exports"), used, retain)) static void *places[] = {
#include "exports.h"
};
#undef EXPORT
#undef EXPORT_VOID

#define EXPORT(type, name, parameters, arguments) #name "\0"
#define EXPORT_VOID(name, parameters, arguments) #name "\0"
__attribute__((section("win32.exported"), used, retain)) static const char names[] =
#include "exports.h"
	;
