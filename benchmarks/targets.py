"""Figures of targets: sizes and cosines of bundles that were made, the memory of their programs, and how fast they are beside another.

    python benchmarks/targets.py dist/all-MiniLM-L6-v2-linux-x86-fast --beside dist/all-MiniLM-L6-v2-linux-x86-min

writes ``NAME.measured.json`` beside each bundle's target file, which `edgepack targets`, `edgepack inspect` and the pages read. A bundle
by another recipe than its target's stands there beside the first. Sizes and cosines are those of the bundle's report. Memory and speed are
measured where this machine's processor runs the program: memory is the largest resident set with one short text, speed processor time
on 2,000 short texts with one thread, the least of the rounds, in turns with ``--beside``.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edgepack.plugins.host import load_plugins
from edgepack.suitability.measured import as_document, file_of
from edgepack.verifier.gate import verification_texts

TEXT = "A man is eating food."
PARTS = ("model", "tokenizer", "runner", "runtime")
KEPT = ("memory", "times_as_fast", "beside")
"""What a run without ``--beside``, or on another machine, leaves as it was."""


def main() -> None:
    options = arguments()
    for bundle in options.bundles:
        manifest = json.loads((bundle / "manifest.json").read_text())
        target = load_plugins().target_files[manifest["target"]["name"]]
        assert isinstance(target.file, Path)
        made = figures(bundle, manifest)
        if runs_here(manifest):
            made["memory"] = memory(bundle)
            if options.beside is not None:
                made |= {"times_as_fast": times(bundle, options), "beside": target_of(options.beside)}
        keep(file_of(target.file), made, load_plugins().target(target.name).model.recipe)
        print(f"{target.name}: {file_of(target.file)}")  # noqa: T201


def times(bundle: Path, options: argparse.Namespace) -> float:
    if bundle == options.beside:
        return 1.0
    theirs, ours = processor_seconds([options.beside, bundle], options.rounds)
    return round(theirs / ours, 2)


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    made.add_argument("--beside", type=Path, metavar="BUNDLE", help="what 1.0 is the speed of")
    made.add_argument("--rounds", type=int, default=3)
    return made.parse_args()


def figures(bundle: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """What the bundle's own report says."""
    report = json.loads(bundle.with_name(f"{bundle.name}.report.json").read_text())
    pairs = (each.split("=", 1) for each in report["made"]["settings"])
    settings = {key: value.strip('"') for key, value in pairs}
    target, made = load_plugins().target(manifest["target"]["name"]), report["made"]
    recipe = settings.pop("model.recipe", target.model.recipe)
    words = ["edgepack bundle", "" if DEFAULT in manifest["model"]["name"] else manifest["model"]["name"]]
    words += [f"-t {target.name}", *(f"--set {key}={value}" for key, value in settings.items())]
    words += [f"--recipe {recipe}"] * (recipe != target.model.recipe)
    sizes = {each["name"]: {"raw": each["raw"], "zstd": each["zstd"]} for each in report["parts"]}
    verification = report["verification"]
    return {
        "model": manifest["model"]["name"],
        "recipe": recipe if isinstance(recipe, str) else "",
        "date": made["at"][:10],
        "machine": made["machine"],
        "command": " ".join(filter(None, words)),
        "archive": report["archive_bytes"],
        "folder": report["total"]["raw"],
        "first_visit": report["visits"][0]["brotli"] if report.get("visits") else None,
        "parts": {name: size for name, size in sizes.items() if name in PARTS},
        "packages": {each["form"]: each["size"] for each in report.get("packages", ())},
        "tokenizer_json": next(
            each["size"]
            for each in manifest["model"]["source_files"]
            if each["path"].endswith("tokenizer.json")
        ),
        "mean_cosine": round(verification["mean_cosine"], 6),
        "min_cosine": round(verification["min_cosine"], 6),
    }


DEFAULT = "all-MiniLM-L6-v2"
"""What `edgepack bundle` takes where no model is named."""


def runs_here(manifest: dict[str, Any]) -> bool:
    device = manifest["target"]["platform"]
    return (device["os"], device["arch"]) == ("linux", platform.machine()) and not (
        manifest["runtime"] or {}
    ).get("provider")


def target_of(bundle: Path) -> str:
    return str(json.loads((bundle / "manifest.json").read_text())["target"]["name"])


def memory(bundle: Path) -> int:
    """Bytes of the largest resident set of the program after one short text, the least of three runs."""
    return min(resident(bundle) for _ in range(3))


def resident(bundle: Path) -> int:
    """Read while the program waits for another text: what a process had before it became this program does not count."""
    command = [str(bundle / "embed"), "--jsonl", "--threads", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"text": TEXT}) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.stdin.close()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def processor_seconds(bundles: list[Path], rounds: int) -> list[float]:
    """Of each bundle's program on 2,000 texts, the least of the rounds, in turns."""
    least = [float("inf")] * len(bundles)
    with tempfile.TemporaryDirectory() as work:
        texts = Path(work) / "texts.jsonl"
        lines = [json.dumps({"text": text[:120]}) for text in list(verification_texts()) * 10]
        texts.write_text("\n".join(lines[:2000]) + "\n", encoding="utf-8")
        for _ in range(rounds):
            for place, bundle in enumerate(bundles):
                least[place] = min(least[place], seconds(bundle, texts))
    return least


def seconds(bundle: Path, texts: Path) -> float:
    """Processor time of one run."""
    command = [str(bundle / "embed"), "--jsonl", "--threads", "1"]
    with texts.open("rb") as given:
        process = subprocess.Popen(command, stdin=given, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{bundle}/embed failed: {status}")
    return used.ru_utime + used.ru_stime


def keep(file: Path, made: dict[str, Any], default: object) -> None:
    """Put a bundle's figures in the place of those of the same model and recipe, the target's own recipe first."""
    known = json.loads(file.read_text())["bundles"] if file.is_file() else []
    same = [each for each in known if (each["model"], each["recipe"]) == (made["model"], made["recipe"])]
    kept = {key: value for each in same for key, value in each.items() if key in KEPT}
    bundles = [each for each in known if each not in same] + [{**kept, **made}]
    bundles.sort(key=lambda each: (each["recipe"] not in (default, ""), each["recipe"]))
    file.write_text(json.dumps(as_document(bundles), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
