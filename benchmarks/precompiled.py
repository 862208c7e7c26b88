"""What precompiled headers save: files of a kernel archive compiled with and without, paired, processor time.

    python benchmarks/precompiled.py [COUNT]

Every object is compared with the other's by SHA-256. COUNT files (40) are drawn from those that take a header; the time that the
headers themselves take is counted whole, though a build of all files shares it among more. Uses the archive in the cache.
"""

import os
import random
import resource
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from edgepack.console import Story
from edgepack.files.store import sha256_of
from edgepack.foundry.compile.archive import open_archive
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import host_context
from edgepack.records.target import Platform


def seconds(command: list[str | Path]) -> float:
    """Processor time of a command, its system's time included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with host_context(story=Story(quiet=True)) as context:
        platform = Platform(os="linux", arch="x86_64", libc="glibc", glibc="2.28")
        archive = open_archive(kind="minimal", toolchain=choose(platform, context=context), context=context)
        jobs = [job for name in sorted(archive.units) if (job := archive.job(name)).header]
        total, folder = len(jobs), context.work_dir
        headers: dict[str, tuple[Path, float]] = {}
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        different = []
        for job in random.Random(1).sample(jobs, min(count, total)):
            header = job.header
            assert header is not None
            if (name := header.name) not in headers:
                source, made = folder / f"{name}.hpp", folder / f"{name}.pch"
                source.write_text(header.text)
                headers[name] = (made, seconds([*header.command, "-x", "c++-header", source, "-o", made]))
            job = replace(job, object=folder / "x.o")
            plain = seconds([*job.command, "-o", job.object])
            digest = sha256_of(job.object)
            taking = seconds([*job.command, "-include-pch", headers[name][0], "-o", job.object])
            if sha256_of(job.object) != digest:
                different.append(job.name)
            for at, value in enumerate((1, plain, taking)):
                sums[header.text.replace("#include ", "").replace("\n", " ")][at] += value
        whole = [sum(row[at] for row in sums.values()) for at in range(3)]
        making = sum(cost for _, cost in headers.values())
        for text, (files, plain, taking) in sorted(sums.items()):
            say(f"{files:3.0f} files {plain:7.1f} s → {taking:7.1f} s  {text}")
        share = making * whole[0] / total
        say(
            f"{whole[0]:.0f} of {total} files: {whole[1]:.1f} s without, {whole[2]:.1f} s with, headers {making:.1f} s"
        )
        say(
            f"with their share of the headers {(whole[2] + share) / whole[1]:.2f} of the time without; on {os.cpu_count()} processors"
        )
        say(f"objects that differ: {', '.join(different) or 'none'}")


if __name__ == "__main__":
    main()
