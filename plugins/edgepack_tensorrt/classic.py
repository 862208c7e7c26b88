"""Classic TensorRT, which no package index carries whole: taken from a folder of the user's (``tensorrt_home``).

Its engines are of one GPU and driver, so the device builds them when the bundle is first used, and keeps them: engine and
timing cache lie in the user's cache folder, and ``embed --warmup`` fills them beforehand.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, ExecutionProvider, PreparedModel, RuntimeArtifact, Target, TargetError
from edgepack.api.kit import RuntimeFolder, wheel_file, wheel_files
from edgepack.files.elf import needed_libraries, soname
from edgepack_cuda.api import CUDA, GPU_FILES, ONNXRUNTIME_GPU, TENSORRT_PROVIDER, cuda_host
from edgepack_tensorrt.profile import Profile
from edgepack_tensorrt.runtime import DRIVER_LIBRARIES

NAME = "TensorrtExecutionProvider"
MAJOR = "10"
"""Of TensorRT: what the pinned wheel's provider was compiled against."""
WANTED = (f"libnvinfer.so.{MAJOR}", f"libnvonnxparser.so.{MAJOR}")
OPTIONAL = (f"libnvinfer_plugin.so.{MAJOR}", "libnvinfer_builder_resource*.so.*")
"""The plugins are loaded where they are there; the builder's resources are what engines are built from."""
DEVICE = ("libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9")
HINT = "name the folder that TensorRT's own archive unpacks to, e.g. --tensorrt-home /opt/TensorRT-10.13.3.9"


@dataclass(frozen=True, kw_only=True)
class Home:
    """A TensorRT on this machine."""

    folder: Path
    version: str
    """As its main library's file is called, e.g. ``10.13.3``."""
    libraries: tuple[Path, ...]
    """By the names that others ask for them under."""


def read_home(target: Target, folder: Path) -> Home:
    """The TensorRT in a folder. Raises ``TargetError`` when there is none, or one of another version."""
    if not folder.is_dir():
        raise TargetError(f"target {target.name}: tensorrt_home {folder} is not a folder", hint=HINT)
    places = [place for place in (folder / "lib", folder / "lib64", folder) if place.is_dir()]
    place = next((place for place in places if list(place.glob("libnvinfer.so*"))), None)
    if place is None:
        raise TargetError(
            f"target {target.name}: there is no TensorRT in {folder} (lib/libnvinfer.so)", hint=HINT
        )
    _require_version(target, place)
    absent = [name for name in WANTED if not (place / name).is_file()]
    if absent:
        raise TargetError(
            f"target {target.name}: {place} has no {', '.join(absent)}",
            hint="unpack TensorRT's archive again, or install libnvonnxparsers10 as well",
        )
    optional = sorted(path for pattern in OPTIONAL for path in place.glob(pattern) if path.is_file())
    main = (place / WANTED[0]).resolve().name
    return Home(
        folder=folder.resolve(),
        version=main.partition(".so.")[2],
        libraries=(*(place / name for name in WANTED), *_named_once(optional)),
    )


def _require_version(target: Target, place: Path) -> None:
    found = sorted({name.partition(".so.")[2] for name in _names(place)} - {""})
    if any(version.partition(".")[0] == MAJOR for version in found):
        return
    raise TargetError(
        f"target {target.name}: {place} holds TensorRT {', '.join(found) or 'of an unknown version'}; "
        f"ONNX Runtime {ONNXRUNTIME_GPU.version} was made for TensorRT {MAJOR}",
        hint=f"install TensorRT {MAJOR} for CUDA 13",
    )


def _names(place: Path) -> list[str]:
    files = [path for path in place.glob("libnvinfer.so*") if path.is_file()]
    return [name for path in files for name in (path.name, path.resolve().name, soname(path) or "")]


def _named_once(files: list[Path]) -> list[Path]:
    """Each file once, under the name that it says it has."""
    by_name = {soname(path) or path.name: path for path in files}
    return [path for name, path in sorted(by_name.items()) if re.search(r"\.so\.\d", name)]


def classic_libraries(home: Home, *, context: BuildContext) -> RuntimeFolder:
    """ONNX Runtime's GPU build, its CUDA and TensorRT providers, and the user's TensorRT, in one folder."""
    made = RuntimeFolder(context.work_dir / "tensorrt-libraries")
    host = cuda_host(context)
    for path in (host.folder.onnxruntime, *host.folder.companions):
        made.add(path)
    for path in host.folder.licenses:
        made.add_license(path.stem, path)
    wheel = wheel_files(ONNXRUNTIME_GPU, keep=GPU_FILES, context=context)
    made.add(wheel_file(wheel, TENSORRT_PROVIDER))
    made.beside_each_other(TENSORRT_PROVIDER, context=context)
    for path in home.libraries:
        made.add(path, name=soname(path) or "")
    said = f"TensorRT {home.version}, from the user's own installation, under the licence that it was installed with.\n"
    said += "https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/sla.html\n"
    made.add_license(f"tensorrt-{home.version}", said)
    return made


def classic_runtime(
    model: PreparedModel, *, profile: Profile, home: Home, libraries: RuntimeFolder, context: BuildContext
) -> RuntimeArtifact:
    """ONNX Runtime with its TensorRT provider, which keeps engines and timings in the user's cache."""
    cache = f"{{cache}}/tensorrt-{home.version}"
    return libraries.artifact(
        version=ONNXRUNTIME_GPU.version,
        toolchain=f"wheel {ONNXRUNTIME_GPU.requirement}, TensorRT {home.version}",
        source_files=ONNXRUNTIME_GPU.source_files("onnxruntime"),
        provider=ExecutionProvider(
            name=NAME,
            append="tensorrt",
            options={
                "trt_fp16_enable": "1" if model.precision == "fp16" else "0",
                "trt_engine_cache_enable": "1",
                "trt_engine_cache_path": cache,
                "trt_engine_cache_prefix": _prefix(model),
                "trt_timing_cache_enable": "1",
                "trt_timing_cache_path": cache,
                # One engine for all GPUs from compute capability 8.0 on, for caches that are copied to other devices.
                "trt_engine_hw_compatible": "1",
                **profile.options("trt", model.inputs),
            },
            cuda=CUDA,
            libraries=DEVICE,
            system=(*DRIVER_LIBRARIES, *_elsewhere(libraries)),
            batch_size=profile.usual_texts,
            largest_batch=profile.most_texts,
        ),
        changes=(f"{TENSORRT_PROVIDER}: run path $ORIGIN", *cuda_host(context).changes),
    )


def _elsewhere(libraries: RuntimeFolder) -> tuple[str, ...]:
    """Libraries of the device that TensorRT's own libraries name, beyond what its provider does."""
    inside = {path.name for path in (libraries.onnxruntime, *libraries.companions)}
    named = {name for path in libraries.companions for name in needed_libraries(path)}
    return tuple(sorted(name for name in named - inside if re.match(r"lib(cu|nv)", name)))


def _prefix(model: PreparedModel) -> str:
    return f"edgepack-{hashlib.sha256(model.file.read_bytes()).hexdigest()[:12]}"
