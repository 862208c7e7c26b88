"""Proves a library on processors that neither this machine nor qemu can be: AVX-VNNI, AVX-512 without VNNI.

    python benchmarks/bochs_levels.py LIBRARY MODEL ROOT

Bochs emulates a whole machine, so a Linux boots in it, from a CD image, and runs the proof's program as its init.
ROOT is a folder with the packages bochs, bochs-term, bochsbios, isolinux, syslinux-common, xorriso,
linux-image-cloud-amd64 of Debian trixie and what these depend on, unpacked (dpkg -x). Needs root, for chroot.
"""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from edgepack.console import Story
from edgepack.foundry.proof.harness import prover
from edgepack.foundry.proof.prove import VOCABULARY, _stock, nearness, token_ids
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.plugins.context import host_context

PROCESSORS = {"arrow_lake": "avx_vnni", "corei7_skylake_x": "avx512f"}
"""Bochs's name → what Linux must say that it has."""
LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2")
BOOT = """\
SERIAL 0 115200
DEFAULT proof
LABEL proof
 LINUX /vmlinuz
 INITRD /initrd
 APPEND console=ttyS0 quiet rdinit=/init mitigations=off tsc=reliable no_timer_check lpj=2000000 maxcpus=1 panic=-1
"""
MACHINE = """\
config_interface: textconfig
display_library: rfb, options="timeout=0"
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
cpu: model={processor}, count=1, ips=100000000
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=/work/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=/work/{processor}.out
log: /work/{processor}.log
panic: action=fatal
clock: sync=none
"""


def main(library: Path, model: Path, root: Path) -> None:
    expected = _stock(model, token_ids(VOCABULARY))
    arguments = [
        "/lib.so",
        f"/model{model.suffix}",
        expected.output,
        str(len(expected.vectors[0])),
        ",".join(expected.inputs),
    ]
    arguments += [",".join(map(str, text)) for text in expected.texts]
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    make_image(library, model, arguments, root, work)
    for processor, flag in PROCESSORS.items():
        began = time.monotonic()
        output = boot(processor, root, work)
        if f" {flag} " not in output:
            sys.exit(f"{processor} has no {flag}, or its Linux did not start:\n{output[-2000:]}")
        said = output.split("BEGIN\n")[1].split("END 0\n")
        if len(said) < 2:
            sys.exit(f"{model.name} does not run on {library.name} as {processor}:\n{said[0]}")
        vectors = [[float.fromhex(word) for word in line.split()] for line in said[0].splitlines() if line]
        cosine = nearness(vectors, expected.vectors)
        sys.stdout.write(
            f"{processor:<18} {flag:<10} least cosine {cosine:.7f}  {time.monotonic() - began:.0f} s\n"
        )


def boot(processor: str, root: Path, work: Path) -> str:
    """What the machine wrote to its serial line until it was switched off."""
    (work / f"{processor}.rc").write_text(MACHINE.format(processor=processor))
    command: list[str | Path] = ["chroot", root, "/usr/bin/bochs-bin", "-q", "-f", f"/work/{processor}.rc"]
    environment = {"LTDL_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/bochs/plugins", "HOME": "/tmp"}
    subprocess.run(command, env={**os.environ, **environment}, capture_output=True, timeout=600)
    return (work / f"{processor}.out").read_text(errors="replace").replace("\r", "")


def make_image(library: Path, model: Path, arguments: list[str], root: Path, work: Path) -> None:
    """A CD image that boots Debian's kernel with the proof as all that there is."""
    image = work / "image"
    (image / "isolinux").mkdir(parents=True)
    (image / "isolinux" / "isolinux.cfg").write_text(BOOT)
    for name in ("ISOLINUX/isolinux.bin", "syslinux/modules/bios/ldlinux.c32"):
        shutil.copy(root / "usr/lib" / name, image / "isolinux")
    shutil.copy(next((root / "boot").glob("vmlinuz-*")), image / "vmlinuz")
    (image / "initrd").write_bytes(b"".join(archive(library, model, arguments, work)))
    command: list[str | Path] = [
        "chroot",
        root,
        "/usr/bin/xorriso",
        "-as",
        "mkisofs",
        "-quiet",
        "-o",
        "/work/boot.iso",
    ]
    command += ["-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot"]
    command += ["-boot-load-size", "4", "-boot-info-table", "/work/image"]
    subprocess.run(command, check=True, capture_output=True)


def archive(library: Path, model: Path, arguments: list[str], work: Path) -> Iterator[bytes]:
    """The first file system of the kernel: a cpio archive, "newc"."""
    init = work / "init"
    source = Path(__file__).with_name("bochs_init.c")
    compiler: list[str | Path] = [zig_program(), "cc", "-target", "x86_64-linux-musl", "-static", "-Os", "-s"]
    subprocess.run([*compiler, source, "-o", init], check=True)
    with host_context(story=Story(quiet=True)) as context:
        program = prover("x86_64", context=context)
    files = {"init": init, "prove": program, "lib.so": library, f"model{model.suffix}": model}
    files |= {f"lib/x86_64-linux-gnu/{name}": Path("/lib/x86_64-linux-gnu") / name for name in LIBRARIES}
    files["lib64/ld-linux-x86-64.so.2"] = Path("/lib64/ld-linux-x86-64.so.2")
    for folder in ("dev", "lib", "lib/x86_64-linux-gnu", "lib64"):
        yield member(folder, stat.S_IFDIR | 0o755)
    yield member("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    yield member("arguments", stat.S_IFREG | 0o644, "".join(f"{word}\n" for word in arguments).encode())
    for name, file in files.items():
        yield member(name, stat.S_IFREG | 0o755, file.read_bytes())
    yield member("TRAILER!!!", 0)


def member(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    fields = (hash(name) & 0x7FFFFFFF, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*(Path(word).absolute() for word in sys.argv[1:]))
