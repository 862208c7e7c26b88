"""Many bundles at once: by several processes, by Dask, and out of a store that machines share."""

import errno
import hashlib
import json
import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from tests.support.berts import write_bert
from tests.support.kiosk import install, prepare_site
from tests.support.serving import file, serving

from edgepack import pipeline, python_api
from edgepack.building.outcome import report_file_of
from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import open_bundle
from edgepack.errors import DiskFullError, EdgepackError, UsageError
from edgepack.fetch.http import redacted
from edgepack.files.store import Store, digest_tree
from edgepack.plugins.context import HostContext
from edgepack.project import build_cell, remote_results, stores
from edgepack.project.jobs import Result
from edgepack.project.report import as_dict, row_of
from edgepack.project.state_file import REMEMBERED, described
from edgepack.records.target import Target
from edgepack.signing.keys import new_keys
from edgepack.signing.signatures import signature_of

pytestmark = pytest.mark.tools("env", "python")

PROJECT = """
[[bundle]]
models = ["one", "none", "two"]
targets = ["kiosk-one"]
"""
Build = Callable[..., list[Result]]
Made = dict[str, tuple[Path, pipeline.Outcome]]


@pytest.fixture(scope="module")
def made() -> Made:
    """By model: a folder with its bundle, and what the pipeline returned. Every test makes the same bundles."""
    return {}


@pytest.fixture
def build(
    made: Made, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Build]:
    """Builds a project of three models, one of which is not there; each time as on a new machine, but for ``again``."""
    install(prepare_site(tmp_path / "site", monkeypatch), monkeypatch)
    monkeypatch.setattr(stores, "_opened", {})
    really = pipeline.build

    def make(target: Target, *, model: str | None, output: Path, **how: Any) -> pipeline.Outcome:
        name = Path(str(model)).name
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = (folder, really(target, model=model, output=folder, **how))
        folder, outcome = made[name]
        # As the pipeline replaces a bundle, with its signatures.
        shutil.rmtree(output / outcome.bundle.name, ignore_errors=True)
        for signature in output.glob(f"{outcome.bundle.name}.*.sigstore.json"):
            signature.unlink()
        shutil.copytree(folder, output, symlinks=True, dirs_exist_ok=True)
        return replace(outcome, bundle=open_bundle(output / outcome.bundle.name))

    monkeypatch.setattr(pipeline, "build", make)
    for name in ("one", "two"):
        write_bert(tmp_path / name, num_hidden_layers=1)
    (tmp_path / "edgepack.toml").write_text(PROJECT)
    machines = iter(range(10))

    def run(*, again: bool = False, **how: Any) -> list[Result]:
        if not again:
            monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / f"cache-{next(machines)}"))
            shutil.rmtree(tmp_path / "dist", ignore_errors=True)
        return python_api.build(tmp_path / "edgepack.toml", offline=True, **how)

    yield run


def states(found: list[Result]) -> list[str]:
    """Whoever says so: the bundles of these tests were made for another cache."""
    return [each.state.removeprefix("said to be ") for each in found]


def shipped(tmp_path: Path) -> dict[str, str]:
    """Everything in the output that has no times in it: its digest."""
    return {
        each.path: each.sha256
        for each in digest_tree(tmp_path / "dist")
        if not each.path.endswith((".report.json", ".edgepack-build.json"))
    }


@pytest.mark.slow
def test_what_one_machine_made_another_takes_from_the_store(build: Build, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert states(build(store=store)) == ["made", "failed", "made"]
    first = shipped(tmp_path)
    assert any(name.endswith(".tar.zst") for name in first)
    assert states(build(store=store, dry_run=True)) == ["in the store", "failed", "in the store"]
    assert states(build(store=store)) == ["from the store", "failed", "from the store"]
    assert shipped(tmp_path) == first
    assert states(build(store=store, again=True)) == ["up to date", "failed", "up to date"]
    # Another model is another cell, whatever its name.
    config = json.loads((tmp_path / "two/config.json").read_text())
    (tmp_path / "two/config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-5}))
    assert states(build(store=store, dry_run=True)) == ["in the store", "failed", "to be made"]


def test_a_store_that_lies_costs_time_and_no_bundle(
    build: Build, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    store = tmp_path / "store"
    build(store=store)
    first = shipped(tmp_path)
    for blob in (store / "sha256").glob("*/*"):
        blob.write_bytes(b"lie")
    assert states(build(store=store, progress=True)) == ["made"]
    assert "has a damaged entry, which is made again" in capfd.readouterr().err
    assert shipped(tmp_path) == first
    assert states(build(store=store)) == ["from the store"], "it is mended for others"
    # One that gives another's cell, with right digests, under this key.
    (entry,) = (store / "entries/cell").iterdir()
    said = json.loads(entry.read_text())
    by_name = {each["path"]: each for each in said["files"]}
    by_name["cell.json"]["sha256"] = by_name["one-kiosk-one.tar.zst"]["sha256"]
    by_name["cell.json"]["size"] = by_name["one-kiosk-one.tar.zst"]["size"]
    entry.write_text(json.dumps(said))
    assert states(build(store=store, progress=True)) == ["made"]
    assert "has a wrong one-kiosk-one, which is made again" in capfd.readouterr().err
    assert shipped(tmp_path) == first


ONE = '[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n'
BESIDE = ("tar.zst", "provenance.json", "report.json")


def test_what_lies_beside_a_bundle_is_made_again_when_it_is_damaged(build: Build, tmp_path: Path) -> None:
    (tmp_path / "edgepack.toml").write_text(ONE)
    assert states(build()) == ["made"]
    first = shipped(tmp_path)
    for ending in BESIDE:
        file = tmp_path / f"dist/one-kiosk-one.{ending}"
        whole = file.read_bytes()
        for damage in (b"evil", bytes([whole[0] ^ 1]) + whole[1:], None):
            assert states(build(again=True)) == ["up to date"]
            file.unlink() if damage is None else file.write_bytes(damage)
            assert states(build(again=True, dry_run=True)) == ["to be made"]
            assert states(build(again=True)) == ["made"]
            assert file.read_bytes() == whole and shipped(tmp_path) == first


@pytest.mark.slow
def test_a_bundle_that_was_signed_is_up_to_date_until_a_signature_is_damaged(
    build: Build, tmp_path: Path
) -> None:
    (tmp_path / "edgepack.toml").write_text(ONE)
    private, public = new_keys(tmp_path / "team", password=None)
    bundle = tmp_path / "dist/one-kiosk-one"
    build()
    for at in range(4):
        written = python_api.sign(bundle, key=private, force=True)
        signatures = sorted(path for path in written if path.name.endswith(".sigstore.json"))
        assert len(signatures) == 3
        assert states(build(again=True)) == ["up to date"]
        assert python_api.check_signature(bundle.with_name(f"{bundle.name}.tar.zst"), key=public)
        if at < 3:
            signatures[at].write_text("{}")
            assert states(build(again=True)) == ["made"]
    # What was damaged before it was signed is not made good by a signature.
    (tmp_path / "dist/one-kiosk-one.report.json").write_text("{}")
    python_api.sign(bundle, key=private, force=True)
    assert states(build(again=True)) == ["made"]


def test_what_somebody_else_laid_into_the_output_is_not_signed(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is up to date by a file in that very folder, which came with the project."""
    (tmp_path / "edgepack.toml").write_text(ONE)
    private, _ = new_keys(tmp_path / "team", password=None)
    build()
    cache = tmp_path / "another user's"
    monkeypatch.setenv("EDGEPACK_CACHE", str(cache))
    assert [each.state for each in build(again=True)] == ["said to be up to date"]
    assert states(build(again=True, key=private)) == ["made"]
    assert [each.state for each in build(again=True, key=private)] == ["up to date"]
    # Whoever may write there names a file of their own, and had it signed.
    evil, file = tmp_path / "dist/evil-1.0-py3-none-any.whl", tmp_path / "dist" / REMEMBERED
    evil.write_bytes(b"PK")
    known = json.loads(file.read_text())
    known["one-kiosk-one"]["files"] |= described(evil.parent, [evil.name])
    file.write_text(json.dumps(known))
    assert [each.state for each in build(again=True)] == ["said to be up to date"]
    with monkeypatch.context() as meanwhile:  # written when the build had looked
        meanwhile.setattr(build_cell, "_stays", lambda *asked, context: "up to date")
        assert [each.state for each in build(again=True, key=private)] == ["failed"]
    assert not signature_of(evil).exists()
    assert [each.state for each in build(again=True, key=private)] == ["made"]
    assert not signature_of(evil).exists()


@pytest.mark.parametrize("secret", ["", "known to all"])
def test_what_a_store_without_a_secret_has_is_not_signed(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """Whoever may write there would have this machine's signature; nor is it made of what lies there."""
    (tmp_path / "edgepack.toml").write_text(ONE)
    private, _ = new_keys(tmp_path / "team", password=None)
    if secret:
        monkeypatch.setenv("EDGEPACK_STORE_SECRET", secret)
    asked: dict[str, Any] = {"store": tmp_path / "store", "key": private}
    assert states(build(store=tmp_path / "store")) == ["made"]
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "another machine's"))
    shutil.rmtree(tmp_path / "dist")
    assert states(build(again=True, **asked)) == ["from the store" if secret else "made"]
    if secret:
        assert states(build(again=True, **asked)) == ["up to date"]
    else:
        with pytest.raises(UsageError, match="--sign would sign them"):
            build(again=True, executor="dask", **asked)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seconds", [0, 1, 7_258_118_400])
def test_times_of_files_are_not_compared(seconds: int, build: Build, tmp_path: Path) -> None:
    """1970, and the year 2200."""
    (tmp_path / "edgepack.toml").write_text(ONE)
    assert states(build()) == ["made"]
    for path in (*(tmp_path / "dist").rglob("*"), *(tmp_path / "one").rglob("*")):
        os.utime(path, (seconds, seconds), follow_symlinks=False)
    assert states(build(again=True)) == ["up to date"]
    archive = tmp_path / "dist/one-kiosk-one.tar.zst"
    archive.write_bytes(bytes(archive.stat().st_size))
    os.utime(archive, (seconds, seconds))
    assert states(build(again=True)) == ["made"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("where", ["taken", "dist", "dist/.one-kiosk-one-"])
def test_a_full_disk_is_no_lie_of_the_store(
    where: str, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said to be full, and nothing is built again for it; what was there stays."""
    (tmp_path / "edgepack.toml").write_text(ONE)
    build(store=tmp_path / "store")
    file = tmp_path / "dist/one-kiosk-one.tar.zst"
    file.write_bytes(b"damaged, so that it is taken again")
    before = shipped(tmp_path)
    copy, unpack = shutil.copyfile, unpack_bundle

    def copied(source: Path, destination: Path, **more: Any) -> Path:
        if str(tmp_path / where) in str(destination):
            raise OSError(errno.ENOSPC, "No space left on device")
        return copy(source, destination, **more)

    def unpacked(archive: Path, destination: Path) -> Path:
        if where == "taken":
            raise DiskFullError("no space left on the disk", hint="free some")
        return unpack(archive, destination)

    monkeypatch.setattr(shutil, "copyfile", copied)
    monkeypatch.setattr(remote_results, "unpack_bundle", unpacked)
    (found,) = build(store=tmp_path / "store", again=True)
    assert isinstance(found.error, DiskFullError) and found.error.hint
    assert "no space left on the disk" in found.error.message
    assert shipped(tmp_path) == before
    assert not list((tmp_path / "dist").glob(".one*"))


def poisoned(store: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """Give the store's cell other files, with right digests; ``change`` gets what is remembered of it, and its files."""
    (entry,) = (store / "entries/cell").iterdir()
    said = json.loads(entry.read_text())

    def blob(sha256: str) -> Path:
        return store / "sha256" / sha256[:2] / sha256

    found = {each["path"]: blob(each["sha256"]).read_bytes() for each in said["files"]}
    memory = json.loads(found.pop("cell.json"))
    change(memory, found)
    found["cell.json"] = json.dumps(memory).encode()
    said["files"] = []
    for name, content in found.items():
        sha256 = hashlib.sha256(content).hexdigest()
        blob(sha256).parent.mkdir(exist_ok=True)
        blob(sha256).write_bytes(content)
        said["files"].append({"path": name, "size": len(content), "sha256": sha256, "executable": False})
    entry.write_text(json.dumps(said))


def listed(content: bytes) -> dict[str, Any]:
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def with_makefile(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    for name in ("Makefile", "edgepack.toml"):
        found[name] = b"all: ; echo OWNED"
        memory["files"][name] = listed(found[name])


def with_makefile_unlisted(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    found["Makefile"] = b"all: ; echo OWNED"


def with_names_alone(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    with_makefile(memory, found)
    memory["files"] = list(memory["files"])


def with_another_bundles_archive(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    found["two-kiosk-one.tar.zst"] = found["one-kiosk-one.tar.zst"]
    memory["files"]["two-kiosk-one.tar.zst"] = memory["files"]["one-kiosk-one.tar.zst"]


def with_a_package_nobody_asked_for(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    found["one-kiosk-one_1.0_amd64.deb"] = b"a script that root runs"
    memory["files"]["one-kiosk-one_1.0_amd64.deb"] = listed(b"a script that root runs")


def without_report(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    del found["one-kiosk-one.report.json"], memory["files"]["one-kiosk-one.report.json"]


def with_another_report(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    report = json.loads(found["one-kiosk-one.report.json"])
    found["one-kiosk-one.report.json"] = json.dumps({**report, "digest": "0" * 64}).encode()
    memory["files"]["one-kiosk-one.report.json"] = listed(found["one-kiosk-one.report.json"])


def with_wrong_digests(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    memory["files"]["one-kiosk-one.provenance.json"] = listed(b"another")


def outside(memory: dict[str, Any], found: dict[str, bytes]) -> None:
    memory["files"]["../Makefile"] = listed(b"")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "change",
    [
        with_makefile,
        with_makefile_unlisted,
        with_names_alone,
        with_another_bundles_archive,
        with_a_package_nobody_asked_for,
        without_report,
        with_another_report,
        with_wrong_digests,
        outside,
    ],
)
def test_a_store_writes_nothing_but_what_belongs_to_the_bundle(
    change: Callable[[dict[str, Any], dict[str, bytes]], None],
    build: Build,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The whole is refused, and made again; then the store has the right one."""
    project = f'store = "./store"\n{ONE}output = "."\n'
    (tmp_path / "edgepack.toml").write_text(project)
    (tmp_path / "Makefile").write_text("mine")
    assert states(build()) == ["made"]
    bundle = tmp_path / "one-kiosk-one"
    first = {name: (tmp_path / f"{bundle.name}.{name}").read_bytes() for name in BESIDE}
    names = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("cache-"))
    poisoned(tmp_path / "store", change)
    for expected in ("made", "from the store"):
        shutil.rmtree(bundle)
        assert states(build(progress=True)) == [expected]
        said = capfd.readouterr().err
        assert ("has a wrong one-kiosk-one, which is made again" in said) == (expected == "made")
        assert (tmp_path / "Makefile").read_text() == "mine"
        assert (tmp_path / "edgepack.toml").read_text() == project
        assert {name: (tmp_path / f"{bundle.name}.{name}").read_bytes() for name in BESIDE} == first
        assert names == sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("cache-"))


def test_a_store_does_not_say_that_somebody_is_signing(build: Build, tmp_path: Path) -> None:
    """What a stranger signs later would be taken for what a kill had left, and replaced."""
    (tmp_path / "edgepack.toml").write_text(f'store = "./store"\n{ONE}output = "."\n')
    assert states(build()) == ["made"]
    poisoned(tmp_path / "store", lambda memory, _: memory.update(signing={}))
    shutil.rmtree(tmp_path / "one-kiosk-one")
    assert states(build()) == ["from the store"]
    assert "signing" not in json.loads((tmp_path / REMEMBERED).read_text())["one-kiosk-one"]


@pytest.mark.e2e
@pytest.mark.slow
def test_several_processes_make_what_one_does(build: Build, tmp_path: Path) -> None:
    assert states(build()) == ["made", "failed", "made"]
    one = shipped(tmp_path)
    found = build(jobs=2)
    assert states(found) == ["made", "failed", "made"]
    assert "none" in str(found[1].error)
    assert shipped(tmp_path) == one
    assert [each.report is not None for each in found] == [True, False, True]
    assert states(build(again=True, jobs=2)) == ["up to date", "failed", "up to date"]


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
def test_dasks_workers_here_take_work_of_this_process_alone() -> None:
    """Another user of this machine ran code as whoever built."""
    from distributed import Client

    from edgepack_dask.executor import start

    with start(None, 1) as executor:
        assert executor.submit(sum, (1, 2)).result() == 3
        address = executor._client.scheduler.address  # type: ignore[attr-defined]
        with pytest.raises(OSError):
            Client(address.replace("tls:", "tcp:"), timeout=5)
        for at in psutil.Process().net_connections():
            if at.status == "LISTEN":
                with pytest.raises(OSError):
                    urlopen(f"http://{at.laddr[0]}:{at.laddr[1]}/health", timeout=5)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::UserWarning:distributed",
    "ignore:Creating scratch:UserWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",  # Dask leaves a socket to the garbage collector.
)
@pytest.mark.e2e  # Dask asks which address this machine has in the internet.
def test_dask_brings_bundles_back_through_the_store(build: Build, tmp_path: Path) -> None:
    from distributed import LocalCluster

    how = {"executor": "dask", "store": tmp_path / "store"}
    with LocalCluster(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        assert states(build(scheduler=address, **how)) == ["made", "failed", "made"]
        first = shipped(tmp_path)
        assert states(build(scheduler=address, again=True, **how)) == ["up to date", "failed", "up to date"]
        assert states(build(scheduler=address, **how)) == ["from the store", "failed", "from the store"]
    assert shipped(tmp_path) == first


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("how", "message", "hint"),
    [
        ({"jobs": 0}, "nobody would make anything", "--jobs 4"),
        (
            {"executor": "dusk", "store": "s"},
            "no plugin brings the executor dusk (did you mean dask?)",
            "executors: dask",
        ),
        ({"executor": "dask"}, "bring their bundles back through a store", "EDGEPACK_STORE"),
        ({"scheduler": "tcp://x"}, "--scheduler is an executor's address", "--executor dask"),
        ({"store": "s4://bucket"}, "no plugin reaches the store s4://bucket", "s3://"),
        ({"shard": "3"}, "is no part of a whole", "third"),
        (
            {"executor": "dask", "scheduler": "not an address", "store": "s"},
            "the Dask scheduler not an address does not answer",
            "dask scheduler",
        ),
    ],
)
def test_workers_and_stores_that_there_are_none_of(
    how: dict[str, Any], message: str, hint: str, build: Build, tmp_path: Path
) -> None:
    with pytest.raises(EdgepackError) as caught:
        build(**how)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize(
    "says", [b"", struct.pack("<QQ", 1, 1 << 40) + bytes(1000)], ids=["nothing", "garbage"]
)
def test_what_is_no_scheduler_does_not_answer(says: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong port, of what only listens, held a build for ever."""
    from edgepack_dask import executor

    monkeypatch.setattr(executor, "SECONDS", 1)
    kept = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])
                    kept[-1].sendall(says)

        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with (
            pytest.raises(UsageError, match=f"the Dask scheduler {address} does not answer: "),
            executor.start(address, None),
        ):
            pass
        listener.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()


def test_a_store_that_is_only_read_is_read(
    build: Build, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    store = tmp_path / "store"
    build(store=store)
    first = shipped(tmp_path)
    files = {
        path.relative_to(store).as_posix(): path.read_bytes() for path in store.rglob("*") if path.is_file()
    }
    with serving() as server:
        for name, content in files.items():
            server.on(f"/store/{name}", file(content))
        address = f"{server.base}/store"
        assert states(build(store=address)) == ["from the store"]
        assert shipped(tmp_path) == first
        assert states(build(store=f"{server.base}/empty", progress=True)) == ["made"]
    lines = capfd.readouterr().err.splitlines()
    (at,) = (at for at, line in enumerate(lines) if "takes nothing and is done without: " in line)
    assert lines[at].startswith("warning: the store http://127.0.0.1:")
    assert lines[at + 1].startswith("  hint: what is made here stays here")


@pytest.mark.sample(1)
@pytest.mark.parametrize("secret", ["", "known to all"])
def test_a_figure_from_a_store_is_whose_word(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    if secret:
        monkeypatch.setenv("EDGEPACK_STORE_SECRET", secret)
    store = tmp_path / "store"
    build(only=["one"], store=store)
    for again, state in ((False, "from the store"), (True, f"{'' if secret else 'said to be '}up to date")):
        (result,) = build(only=["one"], store=store, again=again)
        assert result.state == state
        (said,) = as_dict([result])["bundles"]
        cosine = row_of(result)["mean cosine"]
        if secret:
            assert said["said_by"] == {"whose": "store", "key": ""}
            assert cosine.endswith(", from a store whose secret is known here")
        else:
            assert said["said_by"] == {"whose": "maker", "key": ""}
            assert cosine.endswith(", says its maker")


@pytest.mark.parametrize("secret", ["", "known to all"])
def test_without_a_secret_finished_bundles_alone_are_shared(
    secret: str, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph of another model's stayed in the cache, and was what bundles were judged by; a program, and was signed."""
    monkeypatch.setattr(stores, "_opened", {})
    monkeypatch.delenv("EDGEPACK_STORE_SECRET", raising=False)
    if secret:
        monkeypatch.setenv("EDGEPACK_STORE_SECRET", secret)
    shared = stores.open_shared(str(tmp_path / "shared"), context=context)

    calls: list[Path] = []

    def make(folder: Path) -> None:
        calls.append(folder)
        (folder / "file").write_text("1")

    for kind, times in (("cell", 1), ("onnx", 1 if secret else 2), ("standalone", 1 if secret else 2)):
        calls.clear()
        for machine in ("one", "other"):
            Store(root=tmp_path / machine, shared=shared).cached(kind, {"of": "this"}, make)
        assert len(calls) == times


def test_an_address_of_no_store_is_said(context: HostContext) -> None:
    with pytest.raises(UsageError, match="~nobody-of-that-name/x begins with the home folder of nobody"):
        stores.address_of("~nobody-of-that-name/x", None)
    assert redacted("https://user:word@[x") == "https:…"
    assert stores.open_shared("http://[", context=context).url == "http:…"


@pytest.mark.parametrize("secret", ["", " \n"])
def test_a_secret_that_was_never_set_is_not_no_secret(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("EDGEPACK_STORE_SECRET", secret)
    with pytest.raises(UsageError, match="EDGEPACK_STORE_SECRET is empty") as caught:
        stores.open_shared(str(tmp_path / "empty"), context=context)
    assert caught.value.hint


def test_a_report_of_another_bundle_says_nothing_in_the_table(build: Build, tmp_path: Path) -> None:
    one, _, two = build()
    assert one.path is not None and two.path is not None
    assert row_of(one)["mean cosine"]
    # Nor does one of the bundle that is to be replaced.
    (one.path / "boot.bin").write_bytes(b"damaged!")
    assert row_of(build(again=True, dry_run=True)[0])["mean cosine"] == ""
    shutil.copy(report_file_of(two.path), report_file_of(one.path))
    assert row_of(one)["mean cosine"] == "" and as_dict([one])["bundles"][0]["said_by"] is None
