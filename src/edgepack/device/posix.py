"""What the host says to POSIX shells, those of busybox and toybox among them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.device.shell import NO_PLACE, NO_ROOM, NO_VARIABLES

PLACES = '"${TMPDIR:-/tmp}" "$HOME" /var/tmp /data/local/tmp /dev/shm "$PWD"'
"""Where a folder is made: the first that can be written and whose programs can be run."""

DESCRIBE = r"""
s() { printf '%s=%s\n' "$1" "$2"; }
s system "$(uname -s)"
s machine "$(uname -m)"
s kernel "$(uname -r)"
s distribution "$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release | tr -d '"')"
s libc "$(getconf GNU_LIBC_VERSION || ldd --version 2>&1 | head -n 2 | tr '\n' ' ')"
s processor "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
s board "$(tr -d '\000' < /proc/device-tree/model || getprop ro.product.model)"
s cores "$(getconf _NPROCESSORS_ONLN || grep -c '^processor' /proc/cpuinfo)"
s memory "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
s flags "$(sed -n -e 's/^flags[^:]*: *//p' -e 's/^Features[^:]*: *//p' /proc/cpuinfo | head -n 1)"
s governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)"
s gpu "$(sed -n 's/^Model: *//p' /proc/driver/nvidia/gpus/*/information | head -n 1)"
if [ "$(uname -s)" = Darwin ]; then
  s distribution "macOS $(sw_vers -productVersion)"
  s libc
  s processor "$(sysctl -n machdep.cpu.brand_string)"
  s board "$(sysctl -n hw.model)"
  s memory "$(($(sysctl -n hw.memsize) / 1024))"
fi
s energy "$(ls -d /sys/class/powercap/*-rapl:0 /sys/class/power_supply/*/energy_now | head -n 1)"
"""

NOT_ITS = "s libc\ns flags\ns board\n"
"""Of the shell's machine, where programs run under an emulator."""

PLACE = """
umask 077
why={no_place}
# busybox calls its own shell by no path.
for sh in "$(command -v sh)" /bin/sh /system/bin/sh; do
  case "$sh" in /*) [ -x "$sh" ] && break ;; esac
done
for d in {places}; do
  [ -n "$d" ] && [ -d "$d" ] || continue
  f="$d/{name}"
  mkdir "$f" || continue
  printf '#!%s\\nexit 0\\n' "$sh" > "$f/try" && chmod 700 "$f/try" && "$f/try"
  runs=$?
  rm -f "$f/try"
  if [ "$runs" = 0 ]; then
    set -- $(df -Pk "$f" | tail -n 1)
    case "$4" in
      '' | *[!0-9]*) printf '%s\\n' "$f"; exit 0 ;;
    esac
    if [ "$4" -ge {kilobytes} ]; then printf '%s\\n' "$f"; exit 0; fi
    why={no_room}
  fi
  rmdir "$f"
done
exit $why
"""

REMOVE = """
for p in /proc/[0-9]*; do
  case "$(readlink "$p/cwd")" in
    {folder} | {folder}/*) [ "${{p#/proc/}}" = "$$" ] || kill -9 "${{p#/proc/}}" ;;
  esac
done
rm -rf {folder}
[ ! -e {folder} ]
"""


@dataclass(frozen=True, kw_only=True)
class Posix:
    """``sh`` with the usual programs; each that is missing there has another way, or is not needed."""

    windows: bool = False
    under: tuple[str | Path, ...] = ()
    """What programs of the bundle are run by: an emulator of another processor than the shell's."""
    machine: str = ""
    """That processor; empty: the shell's."""

    def line(self, command: str, token: str) -> str:
        # The login shell may be none of these: it starts one that is.
        script = f'(\n{command}\n)\necho "{token}:$?" >&2'
        return f"sh -c {shlex.quote(script)}"

    def describe(self) -> str:
        by = f"emulated by {Path(self.under[0]).name}" if self.under else ""
        other = f"s machine {shlex.quote(self.machine)}\ns processor {shlex.quote(by)}\n{NOT_ITS}"
        return f"exec 2>/dev/null\n{DESCRIBE}{other if self.under else ''}"

    def place(self, name: str, size: int) -> str:
        return PLACE.format(
            places=PLACES, name=name, kilobytes=size // 1024 + 1024, no_place=NO_PLACE, no_room=NO_ROOM
        )

    def unpack(self, folder: str) -> str:
        return f"cd {shlex.quote(folder)} && tar -xof -"

    def digests(self, folder: str, names: Sequence[str]) -> Sequence[str]:
        files = " ".join(shlex.quote(f"./{name}") for name in names)
        by = f"if command -v sha256sum > /dev/null; then sha256sum {files}; else shasum -a 256 {files}; fi"
        return [f"cd {shlex.quote(folder)} && {by}"]

    def read_digests(self, said: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        lines = re.findall(r"^([0-9a-f]{64}) [ *]\./(.+)$", "\n".join(said), re.MULTILINE)
        return {name: digest for digest, name in lines}

    def read_back(self, folder: str) -> str:
        return f"cd {shlex.quote(folder)} && tar -cf - ."

    def program(
        self, folder: str, words: Sequence[str], seconds: float, environment: Mapping[str, str] = NO_VARIABLES
    ) -> str:
        said = ["env", *(f"{name}={value}" for name, value in environment.items())] if environment else []
        command = shlex.join([*said, *map(str, self.under), f"{folder}/{words[0]}", *words[1:]])
        limited = f"timeout -s KILL {seconds:.0f}"
        # busybox of some years ago takes the seconds otherwise.
        return (
            f"cd {shlex.quote(folder)} || exit\n"
            f"if timeout -s KILL 1 true 2>/dev/null; then {limited} {command}; else {command}; fi"
        )

    def metered(self, command: str, energy: str) -> str:
        file = f"{energy}/energy_uj" if "rapl" in energy else energy
        count = f'echo "meter-energy $(cat {shlex.quote(file)} 2>/dev/null)" >&2' if energy else ":"
        clock = 'echo "meter-clock $(date +%s)" >&2'
        return f"{count}; {clock}\n(\n{command}\n)\ncode=$?\n{clock}; {count}; times >&2\nexit $code"

    def remove(self, folder: str) -> str:
        return f"exec 2>/dev/null\n{REMOVE.format(folder=shlex.quote(folder))}"
