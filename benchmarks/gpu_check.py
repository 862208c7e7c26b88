"""Run what `benchmarks/gpu_kit.py` packed on this machine's GPU. Python's standard library alone, and no network.

    python3 benchmarks/gpu_check.py [--families] [dist/gpu-kit [RESULTS]]

Each check is a run of the bundle's own program, so that one that crashes or hangs takes no other with it. RESULTS (by default $OUT, else the kit's folder) gets `gpu.json` and `gpu.md`, written anew
after each check: what was learned stays, whatever comes next. Everything ends within ten minutes. Exit code 1 when a
check fails, 2 when there is nothing to check with. With --families only the models of `families.tar.xz` are run, which need what
`kit.tar.xz` and `whole.tar.xz` brought, in this copy or an earlier one.
"""

import ctypes
import hashlib
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROVIDER = "libonnxruntime_providers_cuda.so"
CUDA = ("libcuda.so.1", "libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13")
LEAST_COSINE = 0.9999
PRUNED_ERROR = "was pruned"
LAYOUTS = ("full", "lite")
TOKENS = 32
"""Of the texts whose time is compared."""
ALL_SECONDS, CHECK_SECONDS = 540, 100
PLACES = (
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/x86_64-linux/lib",
    "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
    "/usr/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/lib/wsl/lib",
    "~/.local/lib/python3*/site-packages/nvidia/*/lib",
)
"""Where installers, images and Python wheels of NVIDIA put libraries."""
CHECKS: tuple[tuple[str, str, int, str], ...] = (
    # folder, loading, batch, options; what says most comes first
    ("lib", "LAZY", 1, ""),
    ("lib", "EAGER", 1, ""),
    ("broken", "LAZY", 1, ""),
    ("full", "LAZY", 1, ""),
    ("lite", "LAZY", 1, ""),
    ("lite", "EAGER", 32, ""),
    ("lib", "LAZY", 8, ""),
    ("lib", "LAZY", 32, ""),
    ("whole", "LAZY", 32, ""),
    ("whole", "LAZY", 32, "defaults"),
    ("lib", "LAZY", 32, ""),
    ("whole", "LAZY", 32, ""),
    ("whole", "LAZY", 32, "defaults"),
    ("empty", "EAGER", 1, ""),
    ("whole", "LAZY", 1, ""),
    ("whole", "LAZY", 8, ""),
    ("whole", "EAGER", 1, ""),
    ("broken", "EAGER", 1, ""),
    ("empty", "LAZY", 1, ""),
    ("lib", "EAGER", 32, ""),
)
FAMILY_SECONDS, FAMILIES_SECONDS, AT_ONCE = 60, 150, 4
"""For one model, for all of them, and how many are run beside each other."""
RECORDER = "liblaunched.so"
PRUNE = """
import sys
from pathlib import Path
from edgepack_cuda.prune import prune
for name in sys.argv[2:]:
    file = Path(name)
    made = prune(file.read_bytes(), file.name, architectures=[sys.argv[1]], nearest=False)
    print(f"{file.name}: {len(made.content):,} of {file.stat().st_size:,} bytes")
    file.write_bytes(made.content)
"""
"""What the target's layout ``lite`` does with NVIDIA's libraries."""
PROGRAM = (("--self-test", "--json"), ("--info",), ("--warmup", "--json"), ("--bench",))
"""What the bundle's own program is run with."""


def unpack(kit: Path, place: Path) -> None:
    """Lay out the kit; what an earlier copy brought stays."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("kit.tar.xz", "whole.tar.xz", "families.tar.xz"):
        if (kit / name).exists():
            with tarfile.open(kit / name) as archive:
                # Python before 3.11.4 does not know filters; the kit is the project's own.
                if hasattr(tarfile, "data_filter"):
                    archive.extractall(place, filter="data")
                else:
                    archive.extractall(place)
    if not (place / "facts.json").exists():
        raise SystemExit(
            f"error: there is no kit.tar.xz in {kit}\nhint: make gpu-kit packs it, on a machine with a network"
        )
    facts = json.loads((place / "facts.json").read_text())
    for name in ("broken", "empty", "whole"):
        folder = place / name
        if name == "whole" and not (folder / PROVIDER).exists():
            continue
        folder.mkdir(exist_ok=True)
        for file in (place / "bundle" / "lib").iterdir():
            if file.name != PROVIDER or name in facts:
                shutil.copy(file, folder / file.name)
        if name in facts:
            with (folder / PROVIDER).open("r+b") as stream:
                for at, content in facts[name]:
                    stream.seek(at)
                    stream.write(bytes.fromhex(content))


def lay_layouts(place: Path, capability: str, folders: Sequence[str]) -> str:
    """The bundle with this machine's CUDA libraries in it, as they are (``full``) and pruned (``lite``); why not, where it cannot be."""
    found = {
        name: Path(folder, name)
        for name in CUDA[1:]
        for folder in reversed(folders)
        if Path(folder, name).exists()
    }
    for layout in LAYOUTS:
        lay_libraries(place, place / layout)
        os.link(place / "bundle" / "lib" / PROVIDER, place / layout / PROVIDER)
        for name, file in found.items():
            shutil.copy(file, place / layout / name)
    said = ended(
        [sys.executable, "-c", PRUNE, capability, *(str(place / "lite" / name) for name in CUDA[2:])],
        {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'plugins'}"},
        CHECK_SECONDS,
    )
    if "error" in said:
        shutil.rmtree(place / "lite")
    return str(said.get("error") or said["output"])


def library_path() -> list[str]:
    """Folders with CUDA's libraries: the user's own first, then those that are found."""
    given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    places = [*PLACES, *(f"{entry}/nvidia/*/lib" for entry in sys.path if entry)]
    for variable in ("CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"):
        if root := os.environ.get(variable):
            places += [f"{root}/lib64", f"{root}/lib", f"{root}/lib/python3*/site-packages/nvidia/*/lib"]
    # Another Python than the one that runs this may have the wheels.
    for python in filter(None, (shutil.which("python3"), shutil.which("python"))):
        places.append(f"{Path(python).resolve().parents[1]}/lib/python3*/site-packages/nvidia/*/lib")
        places.append(f"{Path(python).parents[1]}/lib/python3*/site-packages/nvidia/*/lib")
    patterns = (str(Path(place).expanduser()).lstrip("/") for place in places)
    found = sorted({hit for pattern in patterns for hit in Path("/").glob(pattern)}, reverse=True)
    useful = [str(folder) for folder in found if any((folder / name).exists() for name in CUDA)]
    return list(dict.fromkeys([*given, *useful]))


def survey(folders: Sequence[str]) -> dict[str, Any]:
    """What this machine is: GPU, driver, libraries, as far as each of them can be asked."""
    query = "--query-gpu=name,driver_version,compute_cap,memory.total"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "gpu": output_of(["nvidia-smi", query, "--format=csv,noheader"]),
        "machine": f"{platform.platform()}, Python {platform.python_version()}, glibc {platform.libc_ver()[1]}, "
        f"{os.cpu_count()} processors",
        "library_path": list(folders),
        "libraries": output_of([sys.executable, __file__, "--libraries"], environment(folders)),
    }


def output_of(command: Sequence[str], env: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return (done.stdout.strip() or done.stderr.strip())[:1000]


def environment(folders: Sequence[str], **more: str) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders), "PYTHONUNBUFFERED": "1", **more}


def libraries() -> Iterator[str]:
    """In a process of its own: which of CUDA's libraries load, and their versions."""
    for name in CUDA:
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            yield f"{name}: {error}"
        else:
            yield f"{name}: {version_of(library)}"


def version_of(library: Any) -> str:
    """As each of them gives it; ``loads`` where it does not."""
    number = ctypes.c_int(0)
    for function in ("cuDriverGetVersion", "cudaRuntimeGetVersion"):
        if hasattr(library, function) and not getattr(library, function)(ctypes.byref(number)):
            return str(number.value)
    if hasattr(library, "cublasLtGetVersion"):
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        return str(library.cublasLtGetVersion())
    return "loads"


def provider_of(manifest: dict[str, Any], options: str) -> dict[str, Any]:
    """The bundle's own settings, or what ONNX Runtime does by itself."""
    provider: dict[str, Any] = manifest["runtime"]["provider"]
    if options == "defaults":
        provider = {**provider, "options": {"device_id": "0"}, "optimization": "all"}
    return provider


def variant_of(place: Path, folder: str, options: str) -> Path:
    """The bundle with other libraries or settings: a folder with a program of its own, which finds its bundle by its place."""
    made = place / f"variant-{folder}{'-' + options if options else ''}"
    if made.exists():
        return made
    unfinished = made.with_name(made.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    libraries = place / ("bundle/lib" if folder == "lib" else folder)
    shutil.copytree(place / "bundle", unfinished, ignore=shutil.ignore_patterns("lib"))
    (unfinished / "lib").symlink_to(libraries)
    manifest = json.loads((unfinished / "manifest.json").read_text())
    manifest["runtime"]["provider"] = provider_of(manifest, options)
    (unfinished / "manifest.json").write_text(json.dumps(manifest))
    return unfinished.rename(made)


def one(
    place: Path, folder: str, loading: str, batch: int, options: str, folders: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Vectors beside full precision, and how long batches of 32 tokens take, by the bundle's own program."""
    facts = json.loads((place / "facts.json").read_text())
    program = variant_of(place, folder, options) / "embed"
    # Layouts with CUDA's libraries in them need of this machine the driver's library alone.
    folders = [each for each in folders if folder not in LAYOUTS or Path(each, CUDA[0]).exists()]
    env = environment(folders, CUDA_MODULE_LOADING=loading)
    until = time.monotonic() + seconds
    size = ["--batch-size", str(batch)]
    embedded = ended([str(program), *size, "--out", "json", *facts["texts"]], env, seconds, longest=None)
    if "error" in embedded:
        return {"error": embedded["error"]}
    found = [record["embedding"] for record in json.loads(embedded["output"])]
    cosines = [cosine(a, b) for a, b in zip(found, facts["vectors"], strict=True)]
    said: dict[str, Any] = {"min_cosine": min(cosines), "mean_cosine": sum(cosines) / len(cosines)}
    measured = ended([str(program), "--bench", "--json", *size], env, until - time.monotonic(), longest=None)
    if "error" in measured:
        return {**said, "error": measured["error"]}
    bench = json.loads(measured["output"])
    rows = [row for row in bench["lengths"] if row["tokens"] == TOKENS]
    said |= {name: bench[name] for name in ("provider", "device", "nodes") if name in bench}
    said |= {"load_ms": bench["load_ms"], "first_vector_ms": bench["first_vector_ms"]}
    return {**said, **{name: row[name] for row in rows for name in ("text_ms", "texts_per_second")}}


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    norms = math.sqrt(math.fsum(a * a for a in first) * math.fsum(b * b for b in second))
    return product / norms if norms else 0.0


def ended(
    command: Sequence[str], env: dict[str, str], seconds: float, *, longest: int | None = 1500
) -> dict[str, Any]:
    """What a process said at last (all of it where ``longest`` is None), and how it ended when it did not end well."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, timeout=seconds, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        tail = (error.stderr or b"").decode(errors="replace")[-600:]
        return {"error": f"did not end within {seconds:.0f} s: {tail}"}
    except OSError as error:
        return {"error": str(error)}
    said: dict[str, Any] = {"output": done.stdout.strip()[-(longest or 0) :]}
    if done.returncode < 0:
        said["error"] = f"ended by {signal.Signals(-done.returncode).name}: {done.stderr[-600:]}"
    elif done.returncode:
        said["error"] = done.stderr.strip()[-1000:] or f"ended with {done.returncode}"
    return said


def check(
    place: Path, folder: str, loading: str, batch: int, options: str, folders: Sequence[str], seconds: float
) -> dict[str, Any]:
    said: dict[str, Any] = {"folder": folder, "loading": loading, "batch": batch, "options": options}
    try:
        said |= one(place, folder, loading, batch, options, folders, seconds)
    except (KeyError, OSError, ValueError) as error:
        said |= {"error": f"it said something else: {error}"}
    if folder == "broken":
        said["good"] = PRUNED_ERROR in said.get("error", "")
    else:
        said["good"] = (
            said.get("min_cosine", 0) >= LEAST_COSINE
            and said.get("provider") == "CUDAExecutionProvider"
            and "error" not in said
        )
    return said


def program(place: Path, arguments: Sequence[str], folders: Sequence[str], seconds: float) -> dict[str, Any]:
    """The bundle's own program, as a user runs it."""
    cache = place / "cache"
    command = [str(place / "bundle" / "embed"), *arguments]
    ran = ended(command, environment(folders, EMBED_CACHE=str(cache)), seconds)
    return {"program": " ".join(arguments), **ran, "good": "error" not in ran}


def providers_of(place: Path, families: dict[str, Any]) -> dict[tuple[int, ...], Path]:
    """Folders of libraries with the provider as bundles of the families have it, by the translation units that it keeps."""
    whole = (place / "whole" / PROVIDER).read_bytes()
    facts = families["provider"]
    if hashlib.sha256(whole).hexdigest() != facts["sha256"]:
        raise SystemExit("error: whole.tar.xz and families.tar.xz are not of one kit")
    empty, no_room = bytes.fromhex(facts["empty"]), bytes.fromhex(facts["no_room"])
    folders = {}
    for number, kept in enumerate(sorted({tuple(family["kept"]) for family in families["families"]})):
        content = bytearray(whole)
        for index, (at, size) in enumerate(facts["units"]):
            if index not in kept:
                content[at : at + size] = (empty if len(empty) <= size else no_room).ljust(size, b"\0")
        for at, size in facts["blobs"]:
            content[at : at + size] = bytes(size)
        folders[kept] = folder = place / "providers" / str(number)
        lay_libraries(place, folder)
        (folder / PROVIDER).write_bytes(content)
    return folders


def lay_libraries(place: Path, folder: Path) -> None:
    """The bundle's libraries in another folder, but for the provider. Not as links: they look for each other by their places."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in (place / "bundle" / "lib").iterdir():
        if file.name != PROVIDER:
            os.link(file.resolve(), folder / file.name)


def family(
    place: Path, row: dict[str, Any], libraries: Path, folders: Sequence[str], *options: str
) -> dict[str, Any]:
    """A model's vectors beside full precision, one by one and in batches, and the kernels that it launches."""
    bundle, record = place / "families" / row["folder"], place / f"{row['folder']}.launched"
    record.unlink(missing_ok=True)
    (bundle / "lib").unlink(missing_ok=True)
    (bundle / "lib").symlink_to(libraries)
    env = environment(folders, LD_PRELOAD=str(place / RECORDER), LAUNCHED_KERNELS=str(record))
    env["EMBED_CACHE"] = str(place / "cache")
    program, until = str(bundle / "embed"), time.monotonic() + FAMILY_SECONDS
    said: dict[str, Any] = {"cosines": []}
    for size in ("1", "8"):
        command = [program, "--batch-size", size, "--out", "json", *options, *row["texts"]]
        ran = ended(command, env, max(1.0, until - time.monotonic()), longest=None)
        if "error" in ran:
            said |= {"error": f"batches of {size}: {ran['error']}"}
            break
        found = [record["embedding"] for record in json.loads(ran["output"])]
        said["cosines"].append(min(cosine(a, b) for a, b in zip(found, row["vectors"], strict=True)))
    else:
        ran = ended(
            [program, "--warmup", "--json", *options], env, max(1.0, until - time.monotonic()), longest=None
        )
        if "error" in ran:
            said |= {"error": f"warm-up: {ran['error']}"}
        else:
            warm = json.loads(ran["output"])
            said |= {name: warm[name] for name in ("provider", "nodes", "min_cosine") if name in warm}
    launched = record.read_text().splitlines() if record.exists() else []
    said["launched"] = sorted({line[2:] for line in launched if line.startswith("0 ")})
    said["refused"] = sorted({line for line in launched if not line.startswith("0 ")})
    return said


def check_family(place: Path, row: dict[str, Any], libraries: Path, folders: Sequence[str]) -> dict[str, Any]:
    began = time.monotonic()
    said: dict[str, Any] = {"family": row["name"]}
    try:
        said |= family(place, row, libraries, folders)
        if said["refused"] or PRUNED_ERROR in said.get("error", ""):
            # All that it needs, and not just the first that was pruned.
            whole = family(place, row, place / "whole", folders)
            said["launched_of_all"] = whole["launched"]
            said["with_all"] = whole.get("error") or whole["cosines"]
    except (KeyError, OSError, ValueError) as error:
        said |= {"error": f"it said something else: {type(error).__name__} {error}"}
    said["seconds"] = round(time.monotonic() - began, 1)
    said["good"] = (
        "error" not in said
        and min(said["cosines"]) >= row["least_cosine"]
        and said.get("provider") == "CUDAExecutionProvider"
        and not said["refused"]
    )
    return said


def family_results(place: Path, folders: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
    """A result for each model, as they come; those that there is no time for have one, too."""
    until = time.monotonic() + min(seconds, FAMILIES_SECONDS)
    families = json.loads((place / "families.json").read_text())
    libraries = providers_of(place, families)

    def one_of_them(row: dict[str, Any]) -> dict[str, Any]:
        if time.monotonic() > until:
            return {"family": row["name"], "error": "there was no time for it", "good": False}
        return check_family(place, row, libraries[tuple(row["kept"])], folders)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in as_completed([pool.submit(one_of_them, row) for row in families["families"]]):
            yield done.result()


def ratio(results: Sequence[dict[str, Any]], options: str) -> float | None:
    """Throughput at batch 32 of the pruned library, divided by that of the one with all units; each the better of two runs."""

    def best(folder: str, wanted: str) -> float:
        return max(
            (
                each.get("texts_per_second", 0.0)
                for each in results
                if (each.get("folder"), each.get("loading"), each.get("batch"), each.get("options"))
                == (folder, "LAZY", 32, wanted)
            ),
            default=0.0,
        )

    whole = best("whole", options)
    return round(best("lib", "") / whole, 3) if whole else None


def report(facts: dict[str, Any], results: Sequence[dict[str, Any]]) -> str:
    """For docs/gpu.md."""
    lines = [
        f"{facts['date']}: {facts['gpu']}; {facts['machine']}",
        "",
        *(f"- {line}" for line in facts["libraries"].splitlines()),
        f"- pruned against all units at batch 32: {facts['ratio']}; against ONNX Runtime's own settings: {facts['ratio_defaults']}",
        "",
        "| library | loading | batch | least cosine | load ms | first vector ms | one text ms | texts a second | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in results:
        if "folder" in each:
            name = " ".join(filter(None, (each["folder"], each["options"])))
            keys = (
                "loading",
                "batch",
                "min_cosine",
                "load_ms",
                "first_vector_ms",
                "text_ms",
                "texts_per_second",
            )
            cells = [str(each.get(key, "")) for key in keys]
            verdict = ("good" if each["good"] else "FAILED") + (
                f": {each['error']}" if "error" in each else ""
            )
            lines.append(f"| {name} | {' | '.join(cells)} | {' '.join(verdict.split())} |")
    if any("family" in each for each in results):
        lines += ["", "| model | cosines | nodes | kernels | |", "|---|---|---|---|---|"]
    for each in results:
        if "family" in each:
            cosines = ", ".join(f"{value:.6f}" for value in each.get("cosines", ()))
            nodes = ", ".join(f"{count} {name}" for name, count in each.get("nodes", {}).items())
            words = ["good" if each["good"] else "FAILED", each.get("error", ""), *each.get("refused", ())]
            cells = [each["family"], cosines, nodes, str(len(each.get("launched", ()))), " ".join(words)]
            lines.append(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    for each in results:
        if "program" in each:
            said = each.get("error") or each.get("output", "")
            lines += [
                "",
                f"`embed {each['program']}`: {'good' if each['good'] else 'FAILED'}",
                "",
                "```",
                said,
                "```",
            ]
    return "\n".join(lines) + "\n"


def run_all(place: Path, results_folder: Path, *, only_families: bool) -> int:
    until = time.monotonic() + ALL_SECONDS
    folders = library_path()
    facts = survey(folders)
    print(json.dumps(facts, indent=1), flush=True)  # noqa: T201
    results: list[dict[str, Any]] = []

    def keep(result: dict[str, Any]) -> None:
        results.append(result)
        facts["ratio"], facts["ratio_defaults"] = ratio(results, ""), ratio(results, "defaults")
        (results_folder / "gpu.json").write_text(json.dumps({**facts, "results": results}, indent=1))
        (results_folder / "gpu.md").write_text(report(facts, results))
        short = {name: value for name, value in result.items() if not name.startswith("launched")}
        print(json.dumps(short), flush=True)  # noqa: T201

    def seconds() -> float:
        return min(CHECK_SECONDS, until - time.monotonic())

    if not only_families:
        keep(program(place, PROGRAM[0], folders, seconds()))
        arch = json.loads((place / "facts.json").read_text())["arch"]
        facts["layouts"] = lay_layouts(place, arch, folders)
    for folder, loading, batch, options in () if only_families else CHECKS:
        there = place / ("bundle/lib" if folder == "lib" else folder) / PROVIDER
        if there.exists() and seconds() > 10:
            keep(check(place, folder, loading, batch, options, folders, seconds()))
    for arguments in () if only_families else PROGRAM[1:]:
        if seconds() > 10:
            keep(program(place, arguments, folders, seconds()))
    if (place / "families.json").exists():
        for result in family_results(place, folders, until - time.monotonic()):
            keep(result)
    return 0 if all(result["good"] for result in results) else 1


def main() -> int:
    words = sys.argv[1:]
    if words == ["--libraries"]:
        print("\n".join(libraries()))  # noqa: T201
        return 0
    only_families = words[:1] == ["--families"]
    words = words[only_families:]
    kit = Path(words[0]) if words else ROOT / "dist" / "gpu-kit"
    results = Path(words[1] if len(words) > 1 else os.environ.get("OUT", kit))
    results.mkdir(parents=True, exist_ok=True)
    place = ROOT / "build" / "gpu"
    unpack(kit, place)
    return run_all(place, results, only_families=only_families)


if __name__ == "__main__":
    sys.exit(main())
