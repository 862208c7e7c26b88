"""What the bundle says of itself and of this device instead of embedding; ``--version`` and ``--info`` are here."""

from __future__ import annotations

import json

from ..base.bundle import COPY_AGAIN, Bundle
from ..base.errors import BundleError
from ..base.streams import harmless
from .write import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any


def run(options: Namespace, bundle: Bundle) -> int:
    if options.version:
        text = f"embed {bundle.value('edgepack')} ({bundle.value('name')})\n"
    elif options.info:
        text = dump(info(bundle)) if options.json else info_text(bundle)
    elif options.check:
        files = bundle.check_contents()
        text = dump({"files": files}) if options.json else f"check passed: {files} files intact\n"
    elif options.warmup:
        from . import warmup

        warmed = warmup.warm_up(bundle, options)
        text = dump(warmed) if options.json else warmup.text_of(warmed)
    elif options.bench:
        from . import bench

        measured = bench.measure(bundle, options)
        text = dump(measured) if options.json else bench.text_of(measured)
    else:
        from . import self_test

        result = self_test.run(bundle, options)
        text = dump(result) if options.json else self_test.text_of(result)
    # JSON escapes the controls of ASCII, and none of the others.
    with Output(options.output) as output:
        output.stream.write(harmless(text, r"\u%04x" if options.json else r"\x%02x").encode())
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
    platform, kernels = target["platform"], runtime["operators"]
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
        + ("not reduced to the model's operators" if kernels is None else f"{len(kernels)} operator kernels"),
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
        return "not supported by the model"
    return ", ".join(map(str, trained["dimensions"]))


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"
