"""The sample bundle with a table of vectors in the model's and the runtime's place: nothing of ONNX Runtime is compiled or loaded."""

import json
import shutil
import subprocess
from pathlib import Path

import onnx
from onnx import numpy_helper

from edgepack.models.read.static import StaticTable
from edgepack.records.bundle import Bundle
from edgepack.runner.freeze.sample_bundle import sample_model, write_golden
from edgepack.runner.native.build import lay_interfaces
from edgepack.runner.native.sources import library_sources, own_encoder, program_sources
from edgepack_static.table import sources, write_table
from tests.support.native import compile_together
from tests.support.sample_program import write_compiled_sample
from tests.support.signed import list_files

TEXTS = ["a cat", "the kitten sat on the mat", "", "Grüße \N{CAT FACE}"]


def write_table_sample(folder: Path) -> None:
    """The same vectors but for rounding; the table's file has the same name."""
    write_compiled_sample(folder)
    shutil.rmtree(folder / "lib")
    (tensor,) = (
        each for each in onnx.load_model_from_string(sample_model()).graph.initializer if each.name == "table"
    )
    table = StaticTable(vectors=numpy_helper.to_array(tensor), rows=None, scales=None, unknown=None)
    write_table(table, "fp32", normalize=True, destination=folder / "model/model.onnx")


def write_native_sample(
    folder: Path, *, library: bool = False, features: tuple[str, ...] = ("signatures",)
) -> Bundle:
    """With a program for this machine and, where it is asked for, libembed."""
    write_table_sample(folder)
    encoder = own_encoder(dict(sources()))
    compile_together(program_sources(encoder, features), folder / "embed", "-O0", "-s")
    if library:
        lay_interfaces(folder)
        flags = ("-O0", "-s", "-shared", "-fPIC", "-fvisibility=hidden")
        made = compile_together(library_sources(encoder), folder.with_name("libembed.so"), *flags)
        shutil.move(made, folder / "lib/libembed.so")
    shutil.rmtree(folder / "embed-sources", ignore_errors=True)
    _listed(folder)
    words = [str(folder / "embed"), "--out", "json", "--", *TEXTS]
    done = subprocess.run(words, capture_output=True, check=True)
    write_golden(folder, {record["text"]: record["embedding"] for record in json.loads(done.stdout)})
    return Bundle(directory=folder, manifest=_listed(folder))


def _listed(folder: Path) -> dict[str, object]:
    """The manifest of what lies there, as that of a bundle without a runtime."""
    list_files(folder, library="")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {"runtime": None}
    manifest["runner"] |= {"kind": "native"}
    if (folder / "lib/libembed.so").exists():
        manifest["runner"] |= {"library": "lib/libembed.so"}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    return dict(manifest)
