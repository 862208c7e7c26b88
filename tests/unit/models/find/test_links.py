"""Links in a model's folder: git and tar keep them, and what they lead to may be anybody's."""

import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.support.berts import write_bert

from edgepack.errors import ModelError
from edgepack.models.find.source import ingest
from edgepack.models.graph.onnx_file import require_external_files
from edgepack.plugins.context import HostContext


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_bert(tmp_path / "model")
    (tmp_path / "id_rsa").write_text("a private key")
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["LICENSE", "NOTICE.txt", "README.md", "1_Pooling/LICENSE"])
def test_a_text_that_leads_to_a_private_file_is_refused(
    name: str, folder: Path, context: HostContext
) -> None:
    """It went into the bundle's LICENSES, and with `quantize` into the folder that one publishes."""
    (folder / name).parent.mkdir(exist_ok=True)
    for target in (folder.parent / "id_rsa", Path("/proc/self/environ")):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        with pytest.raises(ModelError, match=f"{name} of the model leads out of its folder, to /") as refused:
            ingest(str(folder), context=context)
        assert refused.value.hint


def test_likewise_of_a_graph_that_is_named_itself(folder: Path, context: HostContext) -> None:
    (folder / "onnx").mkdir()
    (folder / "onnx/model.onnx").write_bytes(b"not looked at yet")
    (folder / "LICENSE").symlink_to("../id_rsa")
    with pytest.raises(ModelError, match="LICENSE of the model leads out of its folder"):
        ingest(str(folder / "onnx/model.onnx"), context=context)


@pytest.mark.tools("cp")
def test_the_hint_s_command_puts_a_copy_in_the_link_s_place(tmp_path: Path, context: HostContext) -> None:
    """`cp` alone follows the link, and says that both are one file."""
    folder = tmp_path / "a model"
    write_bert(folder)
    (tmp_path / "LICENSE").write_text("MIT, of all that lies here")
    (folder / "LICENSE").symlink_to("../LICENSE")
    with pytest.raises(ModelError, match="LICENSE of the model leads out of its folder") as refused:
        ingest(str(folder), context=context)
    subprocess.run(shlex.split(str(refused.value.hint).partition("in its place: ")[2]), check=True)
    assert ingest(str(folder), context=context).dimension
    assert (folder / "LICENSE").read_text() == "MIT, of all that lies here"


def test_what_the_kernel_writes_is_no_document(folder: Path, context: HostContext) -> None:
    """Of /proc/kmsg nobody who reads it comes back."""
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("/proc/self/environ")
    with pytest.raises(ModelError, match=r"config\.json is a link to /proc/\d+/environ, no file of a model"):
        ingest(str(folder), context=context)


def test_links_within_the_folder_and_to_the_blobs_of_a_hub_s_cache_are_followed(
    folder: Path, context: HostContext
) -> None:
    (folder / "LICENSE.txt").write_text("MIT")
    (folder / "LICENSE").symlink_to("LICENSE.txt")
    assert ingest(str(folder), context=context).dimension
    cache = folder.parent / "models--org--name"
    (cache / "blobs").mkdir(parents=True)
    for number, file in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        place = cache / "snapshots/rev" / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, cache / f"blobs/{number}")
        place.symlink_to(cache / f"blobs/{number}")
    assert ingest(str(cache / "snapshots/rev"), context=context).dimension


def test_data_of_a_graph_that_lead_to_a_private_file_are_refused(folder: Path) -> None:
    helper, numbers = onnx.helper, np.zeros(4, np.float32)
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    weights = onnx.numpy_helper.from_array(numbers, "weights")
    graph = helper.make_graph(
        [helper.make_node("Identity", ["weights"], ["y"])], "g", [], [output], [weights]
    )
    file, data = folder / "model.onnx", folder / "w.bin"
    onnx.save(helper.make_model(graph), file, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert require_external_files(file) == (data,)
    data.unlink()
    data.symlink_to("../id_rsa")
    with pytest.raises(ModelError, match=r"w\.bin of the model leads out of its folder"):
        require_external_files(file)
