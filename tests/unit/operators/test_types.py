"""What upstream knows of operators' types, where its package is there and where it is not."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from edgepack.errors import MissingToolError
from edgepack.operators.types import FIRST_INPUT, upstream, usage_manager


def spec(origin: Path | None) -> ModuleSpec:
    return ModuleSpec("onnxruntime", None, origin=None if origin is None else str(origin))


@pytest.mark.parametrize("left", ["nothing", "a folder", "no tools"])
def test_a_package_that_is_not_there_says_what_to_install(
    left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed, or removed but for files of others' making, or of another kind: onnxruntime-web has no tools."""
    found = {"nothing": None, "a folder": spec(None), "no tools": spec(tmp_path / "__init__.py")}[left]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.delitem(sys.modules, "edgepack_ort_format_model", raising=False)
    with pytest.raises(MissingToolError, match="onnxruntime package is not installed") as refused:
        upstream("types")
    assert "pip install onnxruntime==" in str(refused.value.hint)


def test_types_of_input_0_are_tracked_for_operators_that_upstream_leaves_out() -> None:
    manager = usage_manager(exact=True)
    for domain, name in FIRST_INPUT:
        manager.restore_from_config_entry(domain, name, '{"inputs": {"0": ["float"]}}')
    needed = manager.make_op_type_impl_filter().is_typed_registration_needed
    for domain, name in FIRST_INPUT:
        assert needed(domain, name, "float") and not needed(domain, name, "double")
