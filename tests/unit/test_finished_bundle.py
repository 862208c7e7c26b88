"""A bundle that was made earlier: its model is read as was said here, never as a stranger says; a proof on a device is of that device, as long as it holds."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.berts import write_bert
from tests.support.device_records import result
from tests.support.signed import key_in, write_small_bundle

from edgepack.bundles.manifest import open_bundle
from edgepack.device.record import record_file_of
from edgepack.device.session import Address, parse_address
from edgepack.errors import BundleError, ModelError, ProofError, UsageError, VerificationError
from edgepack.finished_bundle import (
    Built,
    VerifyOptions,
    _source,
    prove_built,
    reading_of,
    verify_on_devices,
)
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import UNSAID, ModelOptions, Reading
from edgepack.signing.keys import PrivateKey
from edgepack.signing.signatures import is_signed_file
from edgepack.verifier.copies import Embed
from edgepack.verifier.facts import OWN_LIMITS
from edgepack.verifier.proofs import not_hidden, require_other_forms

SET = {"pooling": "cls", "normalize": False, "prompts": {"query": "q: "}}


@pytest.fixture
def made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgepack.finished_bundle.may_run", lambda bundle, *, asked, context: True)


def bundle(**model: Any) -> Bundle:
    return Bundle(directory=Path("bundle"), manifest={"model": model})


@pytest.mark.usefixtures("made_here")
def test_what_was_set_here_is_set_again(context: HostContext) -> None:
    was = Reading(pooling="cls", normalize=False, prompts={"query": "q: "})
    assert reading_of(bundle(set=SET), context) == was
    assert was.said == SET
    assert reading_of(bundle(), context) == UNSAID
    now = Reading(pooling="mean", prompts={"passage": "p: "}).over(was)
    assert now == Reading(pooling="mean", normalize=False, prompts={"query": "q: ", "passage": "p: "})


@pytest.mark.usefixtures("made_here")
@pytest.mark.parametrize("odd", [{"poolin": "cls"}, {"pooling": "median"}, {"normalize": "no"}, ["cls"]])
def test_what_makes_no_sense_is_said(context: HostContext, odd: Any) -> None:
    with pytest.raises(BundleError, match="the bundle's manifest: "):
        reading_of(bundle(set=odd), context)


def test_what_a_stranger_set_does_not_count(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgepack.finished_bundle.may_run", lambda bundle, *, asked, context: asked)
    with context.story.step("model") as step:
        assert reading_of(bundle(set=SET), context) == UNSAID
        assert reading_of(bundle(), context) == UNSAID
    assert step.notes == [
        "the model settings in its manifest are ignored; set them with --pooling, --normalize, --prompt"
    ]


TEXTS = ("a text", "another")


class Devices:
    """What answers at each address; ``wrong`` are addresses of devices that compute wrongly."""

    def __init__(self, folder: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
        self.key: PrivateKey | None
        self.path, self.key, self.context = write_small_bundle(folder / "bundle"), key_in(folder), context
        self.wrong: set[str] = set()
        self.limits = ModelOptions(min_cosine=0.9)
        self.said = {"exec:one": "A Board 4", "exec:two": "A Board 4"}
        for name, stand_in in {
            "open_session": lambda at, *, context: nullcontext(at),
            "describe": lambda at, *, context: self._described(at),
            "fits": lambda bundle, device: True,
            "_source": lambda *_: (None, ()),
            "digests_of": lambda source: {},
            "_options": lambda *_: self.limits,
            "verify_on": self._verify,
        }.items():
            monkeypatch.setattr(f"edgepack.finished_bundle.{name}", stand_in)

    def _described(self, at: Address) -> Any:
        return SimpleNamespace(device=replace(result().device, board=self.said[at.address]))

    def _verify(self, at: Address, check: Any, *, bench: bool, context: HostContext) -> Any:
        if at.address in self.wrong:
            raise VerificationError("vectors of another length")
        return result(at.id, device=self._described(at).device)

    def prove(self, address: str = "exec:one", *, force: bool = False) -> str:
        built, at = (
            Built(label="b", path=self.path, model="m"),
            Address(id="pi", scheme="exec", address=address),
        )
        (proof,) = prove_built([built], [at], force=force, sign=self.key, context=self.context)
        return proof.state


@pytest.fixture
def devices(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch, made_here: None
) -> Devices:
    return Devices(tmp_path, context, monkeypatch)


def test_a_device_that_fails_keeps_no_proof_of_before(devices: Devices) -> None:
    record = record_file_of(devices.path, "bundle")
    assert [devices.prove(), devices.prove()] == ["passed", "up to date"]
    assert len(list(devices.path.parent.glob(f"{record.name}*"))) == 2
    devices.wrong.add("exec:one")
    assert [devices.prove(force=True), devices.prove()] == ["failed", "failed"]
    assert list(devices.path.parent.glob(f"{record.name}*")) == []


def test_a_result_below_the_limits_that_count_now_is_measured_again(devices: Devices) -> None:
    """As `edgepack verify --on … --target` with lower ones may have written it."""
    assert [devices.prove(), devices.prove()] == ["passed", "up to date"]
    devices.limits = ModelOptions(min_cosine=0.999)
    assert devices.prove() == "passed", "measured again; nothing here judges"


def test_a_record_that_is_up_to_date_is_signed(devices: Devices) -> None:
    key, record = devices.key, record_file_of(devices.path, "bundle")
    devices.key = None
    assert devices.prove() == "passed"
    others = [key, key_in(devices.path.parent, "other")]
    for devices.key in others:
        assert devices.key is not None
        assert devices.prove() == "up to date"
        assert is_signed_file(record, devices.key.public)


def test_a_proof_is_of_the_device_at_that_address(devices: Devices) -> None:
    assert devices.prove() == "passed"
    assert [devices.prove("exec:two"), devices.prove("exec:two")] == ["passed", "up to date"]
    devices.said["exec:two"] = "A Board 5"
    assert devices.prove("exec:two") == "passed"


def test_two_devices_of_one_name_are_refused(devices: Devices) -> None:
    """A record has each name once."""
    asked = [parse_address(f"ssh://{user}@pi") for user in ("root", "pi")]
    with pytest.raises(UsageError, match="two devices are called ssh://pi"):
        verify_on_devices(devices.path, asked, VerifyOptions(model="m"), context=devices.context)
    assert not record_file_of(devices.path, "bundle").exists()


@pytest.mark.parametrize(("other", "words"), [([0.0, 1.0], "differ from"), (None, "does not run: it ended")])
def test_each_form_of_a_bundle_gives_its_vectors(
    other: list[float] | None,
    words: str,
    tmp_path: Path,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = open_bundle(write_small_bundle(tmp_path / "bundle"))
    forms = {"without SIMD": {"golden.json": b"other"}}
    monkeypatch.setattr("edgepack.verifier.proofs.forms_of", lambda bundle, *, context: forms)

    def embed(answer: list[float] | None) -> Embed:
        def vectors(bundle: Bundle, texts: Sequence[str]) -> list[list[float]]:
            if (bundle.directory / "golden.json").read_bytes() != b"other":
                return [[1.0, 0.0]] * len(texts)
            if answer is None:
                raise ProofError("it ended")
            return [answer] * len(texts)

        return vectors

    require_other_forms(made, embed([1.0, 0.0]), TEXTS, OWN_LIMITS, context)
    with pytest.raises(ProofError, match=rf"\(without SIMD\).*({words})"):
        require_other_forms(made, embed(other), TEXTS, OWN_LIMITS, context)


def test_what_reads_a_bundle_has_limits(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever parser a stranger's file has found a way to keep busy."""
    made = open_bundle(write_small_bundle(tmp_path / "bundle"))
    for name in ("verifier.proofs.forms_of", "finished_bundle.require_sound"):
        monkeypatch.setattr(f"edgepack.{name}", lambda bundle, *, context: bytearray(1 << 46))
    with pytest.raises(ModelError, match="takes more memory than"):
        require_other_forms(made, lambda bundle, texts: [], TEXTS, OWN_LIMITS, context)
    for name, given in (
        ("ingest", None),
        ("given_by_bundle", write_bert(tmp_path / "model")[0]),
        ("module_of", None),
        ("require_facts", ()),
    ):
        monkeypatch.setattr(f"edgepack.finished_bundle.{name}", lambda *asked, given=given, **how: given)
    with pytest.raises(ModelError, match="takes more memory than"):
        _source(made, VerifyOptions(model="named"), context)
    monkeypatch.setattr("edgepack.finished_bundle.require_sound", lambda bundle, *, context: burn(0.05))
    monkeypatch.setenv("EDGEPACK_GRAPH_SECONDS", "0.01")
    with pytest.raises(ModelError, match="computes for longer than"):
        _source(made, VerifyOptions(model="named"), context)


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_files_from_which_the_processor_is_not_hidden_are_counted(tmp_path: Path) -> None:
    """A program that starts another, or loads its kernels from a library beside it, runs them as this processor does."""
    made = open_bundle(write_small_bundle(tmp_path / "bundle", b"\x7fELF and more"))
    assert not_hidden(made) == ()
    (made.directory / "kernels.so").write_bytes(b"\x7fELF and more")
    assert not_hidden(made) == ("other CPU levels of 1 compiled files beside its program",)
