"""Links in a model's folder: git and tar keep them, and what they lead to may be anybody's."""

import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.support.berts import write_bert
from tests.support.tiny import write_json
from tests.unit.models.convert.test_strange_adapter import an_adapter

from edgepack.errors import ModelError
from edgepack.models.convert.route import routed_folder
from edgepack.models.find.adapter import merged_model
from edgepack.models.find.source import ingest
from edgepack.models.graph.onnx_file import require_external_files
from edgepack.models.read.model_folder import ModelFolder
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


@pytest.mark.parametrize(
    "name", ["config.json", "config_sentence_transformers.json", "tokenizer_config.json", "vocab.txt"]
)
def test_settings_and_words_that_lie_elsewhere_are_refused(
    name: str, folder: Path, context: HostContext
) -> None:
    """A client's keys are JSON, too, and a private key is lines of text."""
    if name == "vocab.txt":
        (folder / "tokenizer.json").unlink()
        (folder / name).symlink_to("../id_rsa")
    else:
        write_json(folder.parent / "keys.json", {"auth": "c2VjcmV0"})
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("../keys.json")
    with pytest.raises(ModelError, match=f"{name} of the model leads out of its folder"):
        ingest(str(folder), context=context)


def test_weights_may_be_kept_elsewhere(folder: Path, context: HostContext) -> None:
    (folder / "model.safetensors").rename(folder.parent / "weights")
    (folder / "model.safetensors").symlink_to("../weights")
    assert ingest(str(folder), context=context).dimension


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
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/proc/self/environ")
    with pytest.raises(
        ModelError, match=r"model\.safetensors is a link to /proc/\d+/environ, no file of a model"
    ):
        ingest(str(folder), context=context)


def test_what_git_has_written_into_a_clone_is_no_text_of_the_model(
    folder: Path, context: HostContext
) -> None:
    """Whoever cloned by an address with a token published the token."""
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("url = https://me:hf_SECRET@hub/org/model")
    (folder / "LICENSE").symlink_to(".git/config")
    with pytest.raises(
        ModelError, match=r"LICENSE of the model leads out of its folder, to /.*/\.git/config"
    ):
        ingest(str(folder), context=context)
    (folder / "LICENSE").unlink()
    (folder / ".git/README.md").symlink_to("../../id_rsa")  # nobody's: hidden files are not read
    assert ingest(str(folder), context=context).dimension


@pytest.mark.parametrize("whose", ["adapter", "model"])
def test_settings_of_an_adapter_and_of_its_model_that_lead_elsewhere_are_refused(
    whose: str, folder: Path, context: HostContext
) -> None:
    """The merged model had copies of what they led to, of which nothing told any more."""
    adapter, name = an_adapter(folder.parent / "adapter"), "special_tokens_map.json"
    place = adapter if whose == "adapter" else folder.parent / "base"
    write_json(folder.parent / "auths.json", {"auth": "c2VjcmV0"})
    (place / name).symlink_to("../auths.json")
    with pytest.raises(ModelError, match=f"{name} of the model leads out of its folder"):
        merged_model(adapter, context=context)
    (place / name).unlink()
    shutil.copy(folder.parent / "auths.json", place / name)
    assert (merged_model(adapter, context=context) / name).is_file()


@pytest.mark.parametrize("name", ["special_tokens_map.json", "LICENSE", "NOTICE.safetensors"])
def test_likewise_of_a_model_with_routes(name: str, folder: Path, context: HostContext) -> None:
    kind = "sentence_transformers.models.Router"
    write_json(folder / "modules.json", [{"idx": 0, "name": "0", "path": "router", "type": kind}])
    transformer = "sentence_transformers.models.Transformer"
    router, said = folder / "router/router_config.json", {"structure": {"query": ["q"]}}
    (folder / "router/q").mkdir(parents=True)
    write_json(router, {"types": {"q": transformer}, **said})
    (folder / "router/q" / name).symlink_to("../../../id_rsa")
    with pytest.raises(ModelError, match=f"router/q/{name} of the model leads out of its folder"):
        routed_folder(ModelFolder(directory=folder), "query", context=context)
    write_json(router, {"types": {".git": transformer}, "structure": {"query": [".git"]}})
    with pytest.raises(ModelError, match=r"points outside the model's folder: \.git"):
        routed_folder(ModelFolder(directory=folder), "query", context=context)


@pytest.mark.parametrize("place", ["..2026_11_28", ".git/annex/objects/3k"])
def test_links_as_kubernetes_and_git_annex_lay_them_are_followed(
    place: str, folder: Path, context: HostContext
) -> None:
    (folder / place).mkdir(parents=True)
    for name in ("config.json", "tokenizer.json"):
        (folder / name).rename(folder / place / name)
        (folder / name).symlink_to(f"{place}/{name}")
    assert ingest(str(folder), context=context).dimension


def test_links_within_the_folder_and_to_the_blobs_of_a_hub_s_cache_are_followed(
    folder: Path, context: HostContext
) -> None:
    (folder / "LICENSE.txt").write_text("MIT")
    (folder / "LICENSE").symlink_to("LICENSE.txt")
    (folder / "NOTICE").symlink_to(".")  # a folder, and nobody's text
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
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("token")
    hidden = onnx.load(file, load_external_data=False)
    hidden.graph.initializer[0].external_data[0].value = ".git/config"
    (folder / "other.onnx").write_bytes(hidden.SerializeToString())
    with pytest.raises(ModelError, match=r"points outside the model's folder: \.git/config"):
        require_external_files(folder / "other.onnx")
    data.symlink_to("../id_rsa")
    with pytest.raises(ModelError, match=r"w\.bin of the model leads out of its folder"):
        require_external_files(file)
