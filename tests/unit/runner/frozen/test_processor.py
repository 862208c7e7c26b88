"""A bundle for better processors than this one says so before anything is loaded."""

import json
from pathlib import Path

import pytest
from tests.support.sample_program import run_program

from edgepack.runner.frozen.base import processor
from edgepack.runner.frozen.base.bundle import Bundle
from edgepack.runner.frozen.base.errors import RuntimeFailure
from edgepack.runner.frozen.base.processor import processor_flags, require_processor

pytestmark = pytest.mark.tools("c++", "python")


def requiring(bundle: Path, *flags: str) -> Bundle:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["runtime"]["requires"] = flags
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    return Bundle(str(bundle))


def test_the_program_ends_with_a_sentence(copy: Path) -> None:
    requiring(copy, "quantum", "sse2")
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert done.stdout == b""
    assert b"error: this device's processor lacks quantum, which the bundle's runtime requires" in done.stderr


def test_a_processor_that_has_it(copy: Path) -> None:
    require_processor(requiring(copy, *sorted(processor_flags())[:3]))
    require_processor(requiring(copy))


def test_bundles_from_before_say_nothing(copy: Path) -> None:
    require_processor(Bundle(str(copy)))


def test_where_the_system_does_not_say(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = requiring(copy, "quantum")
    monkeypatch.setattr(processor, "CPUINFO", str(tmp_path / "none"))
    require_processor(bundle)
    (tmp_path / "arm").write_text("processor\t: 0\nFeatures\t: fp asimd asimddp\n")
    monkeypatch.setattr(processor, "CPUINFO", str(tmp_path / "arm"))
    with pytest.raises(RuntimeFailure, match="quantum"):
        require_processor(bundle)
