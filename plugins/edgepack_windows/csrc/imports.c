// The slots of what is imported, and their names for pe.py.
#include "win32.h"

HIDDEN struct Imports win32 __attribute__((section(".bss.rel.ro.win32")));

#define DLL(name, file) "=" file "\0"
#define IMPORT(type, name, arguments) #name "\0"
__attribute__((section("win32.names"), used, retain)) static const char names[] =
#include "imports.h"
	"=";
