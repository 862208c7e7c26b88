"""The Linux builder checks a target before anything is built."""

from pathlib import Path

import pytest
from tests.support.signed import key_in

from edgepack import pipeline
from edgepack.errors import TargetError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.target import Target
from edgepack.targets import built_in_targets, read_target
from edgepack_linux.builder import create_builder


def small(*overrides: str) -> Target:
    file = next(file for file in built_in_targets() if file.name == "linux-x86-min.toml")
    return read_target(file, origin="edgepack", overrides=overrides)


@pytest.mark.parametrize("runtime", ["minimal", "minimal-extended"])
def test_a_runtime_that_cannot_read_the_format_is_refused(context: HostContext, runtime: str) -> None:
    target = small("model.format=onnx", f"runtime={runtime}")
    with pytest.raises(TargetError, match=f"{runtime} runtime reads ORT format") as caught:
        create_builder(target, context)
    assert "--set runtime=full" in str(caught.value.hint)


def test_an_instruction_set_that_is_not_known_is_refused(context: HostContext) -> None:
    with pytest.raises(UsageError, match="mmx"):
        create_builder(small('platform.isa=["avx2", "mmx"]'), context)


def test_branch_protection_is_refused_where_linux_has_none(context: HostContext) -> None:
    with pytest.raises(UsageError, match="no branch protection for x86_64") as caught:
        create_builder(small("platform.branch_protection=true"), context)
    assert "docs/security.md" in str(caught.value.hint)


def test_a_full_runtime_reads_everything(context: HostContext) -> None:
    for form in ("onnx", "ort", "ort-runtime-opt"):
        create_builder(small(f"model.format={form}", "runtime=full"), context)


def test_a_runner_of_this_machine_s_kind_is_not_for_another(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    file = next(file for file in built_in_targets() if file.name == "linux-arm64-min.toml")
    source = ModelSource(
        name="none",
        origin="test",
        directory=Path(),
        weights=None,
        onnx=None,
        tokenizer=Path(),
        config={},
        pooling=Pooling(),
        max_length=8,
        dimension=4,
    )
    builder = create_builder(read_target(file, origin="edgepack", overrides=["runner=pyinstaller"]), context)
    with pytest.raises(TargetError, match="made for this machine's architecture, x86_64") as caught:
        builder.prepare_model(source)
    assert "--set runner=native" in str(caught.value.hint)


def test_a_program_that_refuses_unsigned_bundles_wants_them_signed(
    tmp_path: Path, context: HostContext
) -> None:
    """Said before anything is fetched or made."""
    host, key = load_plugins(), key_in(tmp_path)
    key_in(tmp_path, "other")
    for wanted, given in (("key", None), ("other", key)):
        target = host.target("linux-x86-min", [f'require_signature="{tmp_path}/{wanted}.pub"'])
        with pytest.raises(UsageError, match="not signed with that key"):
            pipeline.build(target, model=None, output=tmp_path, key=given, host=host, context=context)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (['require_signature="/nowhere.pub"'], "/nowhere.pub cannot be read"),
        (["library=true", "runner=pyinstaller"], "library goes with the native runner"),
    ],
)
def test_what_cannot_be_asked_of_a_program_is_refused(
    context: HostContext, overrides: list[str], words: str
) -> None:
    with pytest.raises(TargetError, match=words):
        create_builder(small(*overrides), context)
