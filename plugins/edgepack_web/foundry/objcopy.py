"""The one thing that Emscripten asks of llvm-objcopy, which zig's does not do for WebAssembly: leave sections out."""

SCRIPT = '''\
"""llvm-objcopy IN OUT --remove-section=NAME… for WebAssembly modules; a * at a name's end stands for anything."""
import fnmatch, sys
paths = [word for word in sys.argv[1:] if not word.startswith("-")]
patterns = [word.split("=", 1)[1] for word in sys.argv[1:] if word.startswith("--remove-section=")]
unknown = [word for word in sys.argv[1:] if word.startswith("-") and not word.startswith("--remove-section=")]
if unknown or len(paths) != 2:
    sys.exit(f"objcopy: cannot do {sys.argv[1:]}")
data = open(paths[0], "rb").read()
if data[:4] != b"\\0asm":
    sys.exit(f"objcopy: {paths[0]} is not WebAssembly")
def number(at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at
kept, at = [data[:8]], 8
while at < len(data):
    size, begin = number(at + 1)
    name = ""
    if data[at] == 0:
        length, first = number(begin)
        name = data[first : first + length].decode()
    if not (name and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)):
        kept.append(data[at : begin + size])
    at = begin + size
open(paths[1], "wb").write(b"".join(kept))
'''
