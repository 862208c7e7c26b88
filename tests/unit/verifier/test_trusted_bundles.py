"""A bundle runs without being asked for where it was made, and nowhere else."""

from pathlib import Path

import pytest

from edgepack.bundles.manifest import digest
from edgepack.files.store import Store
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.limits import MEMORY, limits_for
from edgepack.verifier.trusted_bundles import FOLDER, is_made_here, may_run, remember, runner_for


def bundle_of(name: str, directory: Path = Path("/nowhere")) -> Bundle:
    return Bundle(directory=directory, manifest={"name": name})


def test_only_what_was_made_here_runs_unasked(context: HostContext) -> None:
    own, other = bundle_of("own"), bundle_of("other")
    assert not may_run(own, asked=False, context=context)
    remember(digest(own), store=context.store)
    assert may_run(own, asked=False, context=context)
    assert not may_run(other, asked=False, context=context)
    assert may_run(other, asked=True, context=context)


def test_a_changed_manifest_is_another_bundle(context: HostContext) -> None:
    own = bundle_of("own")
    remember(digest(own), store=context.store)
    changed = Bundle(directory=own.directory, manifest={**own.manifest, "runner": {"program": "other"}})
    assert not may_run(changed, asked=False, context=context)


def test_a_cache_that_cannot_be_written_forgets(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(root=tmp_path / "file")
    remember("0" * 64, store=store)
    assert not is_made_here("0" * 64, store=store)


def test_a_link_that_another_user_laid_into_the_cache_is_not_followed(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "cache" / FOLDER
    secret.touch(mode=0o600)
    folder.mkdir(parents=True)
    (folder / ("0" * 64)).symlink_to(secret)
    remember("0" * 64, report="1" * 64, store=Store(root=tmp_path / "cache"))
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("", 0o600)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FOLDER).symlink_to(folder)
    remember("2" * 64, store=Store(root=tmp_path / "other"))
    assert [path.name for path in folder.iterdir()] == ["0" * 64]


def test_memory_is_limited_where_a_program_uses_what_it_reserves(tmp_path: Path) -> None:
    def limits(program: bytes, provider: bool = False) -> int | None:
        (tmp_path / "embed").write_bytes(program)
        manifest = {
            "runtime": {"provider": {"name": "CUDAExecutionProvider"}} if provider else None,
            "runner": {"program": "embed"},
            "files": [{"size": 1000}, {"size": 24}],
        }
        return limits_for(Bundle(directory=tmp_path, manifest=manifest)).address_space

    own = Path("/proc/self/exe").read_bytes()[:20]
    assert limits(own) == MEMORY + 4096
    assert limits(own, provider=True) is None
    assert limits(b"export {}") is None
    assert limits(own[:18] + b"\xf3\x00") is None


@pytest.mark.parametrize(
    ("user", "said"),
    [(0, "user namespaces do not work here"), (1000, "neither user namespaces nor bwrap works here")],
)
def test_a_stranger_without_a_sandbox_is_warned_of_before_it_runs(
    context: HostContext, monkeypatch: pytest.MonkeyPatch, user: int, said: str
) -> None:
    """Notes are shown of steps that end well: of a program that fails, as one that has done its work may, nothing was said."""
    monkeypatch.setattr("edgepack.verifier.trusted_bundles.find_sandbox", lambda: None)
    monkeypatch.setattr("os.geteuid", lambda: user)
    with context.story.step("verify") as step:
        runner_for(bundle_of("small"), context)
    assert step.notes == []
    assert context.story.warnings == [f"small runs WITHOUT A SANDBOX, with all your rights: {said}"]
