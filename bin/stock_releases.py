"""Write what edgepack knows of ONNX Runtime's released wheels: their digests, and what each release runs. For edgepack's maintainers.

    python bin/stock_releases.py src/edgepack/models/ort/releases.toml [VERSION ...]

Each wheel is fetched by pip and asked, in a process of its own, for its schemas and its kernels. An operator without a kernel
is tried as a model of one node: what ONNX Runtime writes out as a function runs, too. The newest opset and IR version are found
in the same way. Only versions that are named are fetched; without names, all of VERSIONS.
"""

import argparse
import json
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgepack.console import Story
from edgepack.context import BuildContext
from edgepack.fetch.wheels import pip_download
from edgepack.files.store import sha256_of, written_beside
from edgepack.plugins.context import host_context
from edgepack.tools import run_tool

VERSIONS = (
    *("1.19.2", "1.20.1", "1.21.0", "1.21.1", "1.22.1", "1.23.2", "1.24.4", "1.25.1"),
    *("1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1", "1.32.0"),
)
"""The last of each minor version, and those that edgepack builds; wheels before 1.19 do not load beside NumPy 2."""
ARCHITECTURES = ("x86_64", "aarch64")
PYTHON = f"{sys.version_info.major}{sys.version_info.minor}"
"""Wheels for this one can be asked here."""
DOMAINS = ("ai.onnx", "com.microsoft")
"""What text models use."""

PROBE = Path(__file__).with_name("stock_probe.py")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    named = parser.parse_args()
    with host_context(story=Story()) as context:
        releases = [asked(version, context) for version in named.versions]
    with written_beside(named.file) as temporary:
        temporary.write_text(as_toml(releases), encoding="utf-8")


def asked(version: str, context: BuildContext) -> dict[str, Any]:
    """What one release's wheels say."""
    wheels = {}
    for arch in ARCHITECTURES:
        folder = context.work_dir / f"{version}-{arch}"
        platform = f"manylinux_2_28_{arch}"
        options = [f"--platform={platform}", f"--python-version={PYTHON}", "--implementation=cp"]
        file = pip_download(f"onnxruntime=={version}", folder, options=options, context=context)
        wheels[arch] = {"sha256": sha256_of(file), "size": file.stat().st_size}
        if arch == ARCHITECTURES[0]:
            with zipfile.ZipFile(file) as archive:
                archive.extractall(folder / "unpacked")
    unpacked = context.work_dir / f"{version}-{ARCHITECTURES[0]}" / "unpacked"
    said = run_tool([sys.executable, PROBE], env={"PYTHONPATH": str(unpacked)})
    context.note(f"ONNX Runtime {version}")
    return {"version": version, "wheels": wheels, **json.loads(said.splitlines()[-1])}


def as_toml(releases: Sequence[Mapping[str, Any]]) -> str:
    """The data file: releases, then for every operator since when each of its versions runs."""
    lines = [
        "# Written by bin/stock_releases.py, which asked the wheels themselves. Sizes are bytes.",
        "",
    ]
    for each in releases:
        lines += ["[[release]]", f'version = "{each["version"]}"']
        lines += [f"{name} = {each[name]}" for name in ("opset", "ir", "ort_format")]
        for arch, wheel in each["wheels"].items():
            lines.append(f'{arch} = {{ sha256 = "{wheel["sha256"]}", size = {wheel["size"]} }}')
        lines.append("")
    lines += [
        "# Operator → its versions. 13: runs on every release above that knows it; 23@1.23.2: from that one on;",
        "# 9@-1.30.0: up to that one; 22@1.25.1^1.21.0: known since 1.21.0; 23@1.23.2!: known from that one on, and no kernel has it yet.",
    ]
    for domain in DOMAINS:
        lines += ["", f'[kernels."{domain}"]']
        names = {name for each in releases for name in each["operators"][domain]}
        lines += [f'{name} = "{" ".join(versions_of(domain, name, releases))}"' for name in sorted(names)]
    return "\n".join(lines) + "\n"


def versions_of(domain: str, name: str, releases: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    known = sorted({int(s) for each in releases for s in each["operators"][domain].get(name, {})})
    first_release, last_release = releases[0]["version"], releases[-1]["version"]
    for since in known:
        states = [
            (each["version"], each["operators"][domain].get(name, {}).get(str(since))) for each in releases
        ]
        run = [version for version, runs in states if runs]
        have = [version for version, runs in states if runs is not None]
        shown = run or have
        order = [version for version, _ in states]
        if len(shown) != order.index(shown[-1]) - order.index(shown[0]) + 1:
            raise SystemExit(f"{name} {since} comes and goes: {shown}")
        start = "" if shown[0] == first_release else shown[0]
        end = "" if shown[-1] == last_release else f"-{shown[-1]}"
        earlier = f"^{have[0]}" if shown[0] != have[0] else ""
        yield f"{since}{'@' if start or end else ''}{start}{end}{earlier}{'' if run else '!'}"


if __name__ == "__main__":
    main()
