// As imports.c, of the other list.
#include "ws2.h"

HIDDEN struct Ws2Imports ws2 __attribute__((section(".bss.rel.ro.ws2")));

#define DLL(name, file) "=" file "\0"
#define IMPORT(type, name, arguments) #name "\0"
__attribute__((section("win32.names"), used, retain)) static const char names[] =
#include "imports_ws2.h"
	"=";
