"""A libcuda for machines without a GPU: it answers as the environment tells it to, and lets other libraries load."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

DRIVER = r"""
#include <stdlib.h>
#include <string.h>
static int said(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value ? atoi(value) : otherwise;
}
int cuInit(unsigned flags) { return said("FAKE_CUDA_INIT", 0); }
int cuDriverGetVersion(int *version) { *version = said("FAKE_CUDA_VERSION", 13000); return 0; }
int cuDeviceGetCount(int *count) { *count = said("FAKE_CUDA_COUNT", 1); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Imaginary GPU", size); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  int capability = said("FAKE_CUDA_CAPABILITY", 86);
  *value = which == 75 ? capability / 10 : which == 76 ? capability % 10 : 0;
  return 0;
}
"""


def compile_driver(folder: Path, *, others: Iterable[str] = ()) -> Path:
    """``libcuda.so.1`` in a folder; ``others`` are further functions, which fail as the stub of CUDA's toolkit does."""
    source = DRIVER + "".join(f"int {name}(void) {{ return 34; }}\n" for name in others)
    return compile_library(folder / "libcuda.so.1", source)


def compile_library(path: Path, source: str, *options: str | Path) -> Path:
    """A shared library, named as its file is, from C."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{path.name}", "-x", "c"]
    subprocess.run([*command, "-o", path, "-", "-x", "none", *options], input=source, text=True, check=True)
    return path
