"""What the bundle says of itself: ``--version``, ``--info``, ``--self-test``, ``--warmup`` and ``--bench``."""

from __future__ import annotations

import json
import os

from .bundle import COPY_AGAIN, Bundle
from .errors import BundleError, SelfTestFailure
from .write import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from .embedder import Embedder


def run(options: Namespace, bundle: Bundle) -> int:
    if options.version:
        text = f"embed {bundle.value('edgepack')} ({bundle.value('name')})\n"
    elif options.info:
        text = dump(info(bundle)) if options.json else info_text(bundle)
    elif options.warmup:
        from . import warmup

        warmed = warmup.warm_up(bundle, options)
        text = dump(warmed) if options.json else warmup.text_of(warmed)
    elif options.bench:
        from . import bench

        measured = bench.measure(bundle, options)
        text = dump(measured) if options.json else bench.text_of(measured)
    else:
        result = self_test(bundle, options)
        text = dump(result) if options.json else self_test_text(result)
    with Output(options.output) as output:
        output.stream.write(text.encode())
    return 0


def dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def info(bundle: Bundle) -> dict[str, Any]:
    """The manifest, with the sizes of the parts in bytes instead of the list of files."""
    sizes: dict[str, int] = {}
    for entry in bundle.value("files"):
        sizes[entry["part"]] = sizes.get(entry["part"], 0) + entry["size"]
    said = {key: value for key, value in bundle.manifest.items() if key != "files"}
    return {**said, "sizes": dict(sorted(sizes.items()))}


def info_text(bundle: Bundle) -> str:
    """What ``info`` says, for eyes."""
    try:
        return "".join(f"{name:8} {text}\n" for name, text in info_lines(info(bundle)).items())
    except (KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"manifest.json lacks something: {error}", COPY_AGAIN) from error


def info_lines(said: dict[str, Any]) -> dict[str, str]:
    model, runtime, runner, target = said["model"], said["runtime"], said["runner"], said["target"]
    platform = target["platform"]
    return {
        "bundle": said["name"],
        "model": f"{model['name']}, {model.get('license') or 'licence not stated'}",
        "": f"{model['precision']}, {model['dimension']} dimensions, {model['max_length']} tokens at most, "
        f"{model['pooling']} pooling" + (", normalised" if model["normalize"] else ""),
        "prefixes": ", ".join(
            f"{kind} {text!r}" for kind, text in sorted((model.get("prefixes") or {}).items())
        )
        or "none known",
        "--dim": dimensions_of(model),
        "recipe": model["recipe"],
        "runtime": f"ONNX Runtime {runtime['version']} ({runtime['kind']}), "
        f"{len(runtime['operators'])} operator kernels",
        **provider_lines(runtime),
        "runner": ", ".join(f"{name} {version}" for name, version in runner["versions"].items()),
        "for": f"{platform['os']} {platform['arch']}"
        + (f", glibc {platform['glibc']} or newer" if platform.get("glibc") else ""),
        "sizes": ", ".join(f"{part} {megabytes(size)}" for part, size in said["sizes"].items())
        + f"; together {megabytes(sum(said['sizes'].values()))}",
        "made by": f"edgepack {said['edgepack']}, target {target['name']}",
    }


def provider_lines(runtime: dict[str, Any]) -> dict[str, str]:
    """Which GPUs a bundle is for."""
    provider = runtime.get("provider")
    if not provider:
        return {}
    code = ", ".join(provider["capabilities"]) or "any"
    wanted = f", CUDA {provider['cuda']}" if provider["cuda"] else ""
    return {
        "provider": f"{provider['name']} for compute capability {code}{wanted}; --self-test says what really runs"
    }


def dimensions_of(model: dict[str, Any]) -> str:
    trained = model.get("matryoshka")
    if trained is None:
        return "not trained to be shortened"
    return ", ".join(map(str, trained["dimensions"]))


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def self_test(bundle: Bundle, options: Namespace) -> dict[str, Any]:
    """Compare every file with its SHA-256 and the golden texts' vectors with those that the build made.

    Raises ``BundleError`` for a damaged file, ``SelfTestFailure`` for a vector that is too far off.
    """
    from .cli import load

    files = bundle.check_contents()
    read_golden(os.path.join(bundle.directory, bundle.value("golden")))
    embedder = load(bundle, options)
    result = {"files": files, **self_test_of(bundle, embedder)}
    embedder.finish()
    return result


def self_test_of(bundle: Bundle, embedder: Embedder) -> dict[str, Any]:
    """The golden texts' vectors of a loaded model beside those that the build made. Raises ``SelfTestFailure``."""
    from .embedder import cosine

    golden = read_golden(os.path.join(bundle.directory, bundle.value("golden")))
    cosines = []
    for text, expected in zip(golden["texts"], golden["vectors"], strict=True):
        (vector,) = embedder.embed([text])
        cosines.append(cosine(vector, expected))
        if not cosines[-1] >= golden["tolerance"]:
            raise SelfTestFailure(
                f"self-test failed: the vector of text {len(cosines)} has cosine {cosines[-1]:.6f} to the one "
                f"that the build made, less than {golden['tolerance']}",
                "this device computes differently: please report it with the output of --info",
            )
    return {
        "texts": len(cosines),
        "min_cosine": min(cosines),
        "tolerance": golden["tolerance"],
        **embedder.engine.about(),
    }


def read_golden(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            golden: dict[str, Any] = json.loads(stream.read())
        if not golden["texts"] or len(golden["texts"]) != len(golden["vectors"]):
            raise ValueError("it must have as many vectors as texts, one at least")
        golden["tolerance"] = float(golden["tolerance"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path} is damaged: {error}", COPY_AGAIN) from error
    return golden


def self_test_text(result: dict[str, Any]) -> str:
    on = f" on {result['provider']}" if "provider" in result else ""
    device = f" ({result['device']})" if "device" in result else ""
    return (
        f"self-test passed{on}{device}: {result['files']} files intact, {result['texts']} texts, "
        f"lowest cosine {result['min_cosine']:.6f} (at least {result['tolerance']})\n"
    )
