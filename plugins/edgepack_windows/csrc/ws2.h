// What of Windows' sockets is called.
#pragma once
#include "win32.h"

typedef uintptr_t Socket;
typedef struct { Socket socket; int16_t events, happened; } Polled;

struct Ws2Imports {
#define DLL(name, file) void *before_##name;
#define IMPORT(type, name, arguments) type(WINDOWS *name) arguments;
#include "imports_ws2.h"
#undef DLL
#undef IMPORT
	void *end;
};
extern HIDDEN struct Ws2Imports ws2;
