"""Forms of a bundle beside its archive: what is inside must be the bundle; the Debian package by dpkg's own word."""

import json
import re
import shutil
import subprocess
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgepack.building.outcome import report_file_of, require_own
from edgepack.bundles.archive import bundle_entries, unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.packages import make_packages, packagers_of
from edgepack.context import Extension
from edgepack.errors import OutputError, PluginError, TargetError, UsageError
from edgepack.files.pack import TarEntry, write_tarball
from edgepack.plugins.context import HostContext
from edgepack.recorded.measured_again import report_again
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.report import PackageSize, Verification
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack.reports.measure import measure, weigh
from edgepack.reports.text import as_json

pytestmark = pytest.mark.tools("gcc", may=("dpkg", "dpkg-deb", "tar", "systemd-analyze"))

NAME = "tiny-model-tiny-target"


def made(
    bundle: Bundle, context: HostContext, *, form: str = "deb", version: str = "1.2.0", **own: Any
) -> Path:
    target = replace(wanted(form, version=version), extra={form: own} if own else {})
    packagers = packagers_of(target, context)
    (package,) = make_packages(bundle, packagers, context=context)
    assert package.size == package.file.stat().st_size
    return package.file


def wanted(*forms: str, version: str = "1.2.0", os: str = "linux", arch: str = "x86_64") -> Target:
    """A target whose bundles are packed in these forms."""
    platform = Platform(os=os, arch=arch)
    options = ModelOptions()
    return Target(
        name="tiny-target",
        summary="",
        builder="linux",
        platform=platform,
        model=options,
        packages=forms,
        version=version,
    )


def test_a_debian_package_holds_the_bundle_as_it_is(
    bundle: Bundle, context: HostContext, tmp_path: Path
) -> None:
    file = made(bundle, context)
    assert file.name == f"{NAME}_1.2.0_amd64.deb"
    inside = open_bundle(unpack_bundle(file, tmp_path / "inside"))
    assert digest(inside) == digest(bundle)


def test_the_same_bundle_gives_the_same_package(bundle: Bundle, context: HostContext) -> None:
    first = made(bundle, context).read_bytes()
    shutil.rmtree(context.work_dir / "packages")
    assert made(bundle, context).read_bytes() == first


def test_packages_that_are_still_there_are_measured_again(
    bundle: Bundle, context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "cache"))
    deb = made(bundle, context)
    file = bundle.directory.with_name("tiny.deb")
    shutil.copy(deb, file)
    recorded = PackageSize(form="deb", file=file.name, size=file.stat().st_size)
    passed = Verification(status="passed")

    def again() -> tuple[PackageSize, ...]:
        return report_again(bundle.directory, prices=None, context=context).packages

    def record(of: Bundle) -> None:
        report = measure(of, passed, sizes=weigh(of, context=context), packages=[recorded])
        report_file_of(bundle.directory).write_text(json.dumps(as_json(report)))

    assert again() == ()
    record(bundle)
    (found,) = again()
    assert (found.form, found.file, found.size) == ("deb", "tiny.deb", recorded.size)
    assert {cost.bytes_total for cost in found.costs} == {
        recorded.size * count for count in (1_000, 100_000, 1_000_000)
    }
    record(replace(bundle, manifest={**bundle.manifest, "name": "another"}))
    assert again() == ()
    record(bundle)
    file.write_bytes(b"other")
    assert again() == ()
    file.unlink()
    assert again() == ()


def test_a_package_that_the_report_of_another_bundle_names_is_its_own(tmp_path: Path) -> None:
    file, mine = tmp_path / "tiny.whl", tmp_path / "tiny-a"
    report_file_of(tmp_path / "tiny-b").write_text(json.dumps({"packages": [{"file": file.name}]}))
    for other, text in (
        ("odd", "[]"),
        ("odder", '{"packages": 3}'),
        ("oddest", '{"packages": [{"file": []}]}'),
    ):
        report_file_of(tmp_path / other).write_text(text)
    require_own([file], mine)
    file.write_text("theirs")
    require_own([tmp_path / "other.whl"], mine)
    require_own([file], tmp_path / "tiny-b")
    with pytest.raises(OutputError, match="is that of tiny-b, so it is not replaced"):
        require_own([file], mine)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg on this machine")
def test_dpkg_reads_the_package(bundle: Bundle, context: HostContext, tmp_path: Path) -> None:
    file = made(bundle, context, maintainer="Acme <packages@acme.example>")

    def field(name: str) -> str:
        return subprocess.run(
            ["dpkg-deb", "--field", file, name], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert (field("Package"), field("Version"), field("Architecture")) == (NAME, "1.2.0", "amd64")
    assert field("Maintainer") == "Acme <packages@acme.example>"
    assert field("Depends") == "libc6 (>= 2.99)"
    subprocess.run(["dpkg-deb", "--extract", file, tmp_path / "root"], check=True)
    link = tmp_path / "root/usr/bin" / NAME
    assert link.resolve() == tmp_path / "root/usr/lib/edgepack" / NAME / "embed"
    assert digest(open_bundle(tmp_path / "root/usr/lib/edgepack" / NAME)) == digest(bundle)
    subprocess.run(["dpkg-deb", "--control", file, tmp_path / "control"], check=True)
    assert (tmp_path / "control/postinst").stat().st_mode & 0o111
    assert (
        f"--install /usr/bin/embed embed /usr/lib/edgepack/{NAME}/embed 50"
        in (tmp_path / "control/postinst").read_text()
    )


@pytest.mark.parametrize("said", [{"serve": True}, {}])
def test_a_program_with_a_server_gets_a_unit(
    bundle: Bundle, context: HostContext, tmp_path: Path, said: dict[str, bool]
) -> None:
    from edgepack_deb.package import _data

    served = replace(bundle, manifest={**bundle.manifest, "runner": {"program": "embed", **said}})
    units = {each.name: str(each.source) for each in _data(served) if each.name.endswith(".service")}
    assert list(units) == ([f"./usr/lib/systemd/system/{NAME}.service"] if said else [])
    assert all(f"ExecStart=/usr/lib/edgepack/{NAME}/embed serve\\n" in unit for unit in units.values())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg on this machine")
def test_systemd_takes_the_unit(
    assembled: Callable[..., Bundle], runner: RunnerArtifact, context: HostContext, tmp_path: Path
) -> None:
    served = assembled(tmp_path / "dist/served", runner=replace(runner, serves=True))
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", made(served, context), root], check=True)
    unit = f"/usr/lib/systemd/system/{NAME}.service"
    # What units need of the system itself, which is not the package's.
    for name in ("sysinit.target", "basic.target", "network.target", "shutdown.target", "multi-user.target"):
        (root / "usr/lib/systemd/system" / name).write_text("[Unit]\nDefaultDependencies=no\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", f"--root={root}", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, NAME in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(
    ("platform", "version", "words"),
    [
        (
            {"os": "web", "arch": "wasm32"},
            "1.0",
            "a bundle for web on wasm32 cannot be packed as a Debian package",
        ),
        ({"arch": "s390x"}, "1.0", "a bundle for linux on s390x cannot be packed as a Debian package"),
        ({}, "v1", "'v1' is not a valid version of a Debian package"),
        ({}, "1.0_1", "'1.0_1' is not a valid version"),
    ],
)
def test_what_cannot_be_a_debian_package_is_said(
    context: HostContext, platform: dict[str, str], version: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        packagers_of(wanted("deb", version=version, **platform), context)


def test_the_tutorial_s_form_is_one(
    native: Bundle, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs/tutorials/package.md").read_text()
    (code,) = re.findall(r"`edgepack_acme/package.py`\n\n```python\n(.*?)```", page, re.DOTALL)
    module: dict[str, Any] = {"__name__": "tutorial"}
    exec(code, module)
    box = Extension(name="zip", summary="", plugin="zips", identity="1", make=module["create"])
    monkeypatch.setattr(HostContext, "extensions", lambda self, axis: {"zip": box})
    assert made(native, context, form="zip").name == "tiny-model-tiny-target-1.2.0.acme.zip"
    with pytest.raises(UsageError, match="'v1' is no version"):
        packagers_of(wanted("zip", version="v1"), context)
    linked = replace(native, manifest={**native.manifest, "files": [{"path": "a", "mode": "link"}]})
    with pytest.raises(UsageError, match="links"):
        module["create"](wanted("zip")).pack(linked, Path("none.zip"), context=context)


@pytest.mark.parametrize("own", [{"maintainer": "nobody"}, {"maintainer": 5}, {"section": "misc"}])
def test_what_the_table_of_the_debian_package_cannot_say(
    bundle: Bundle, context: HostContext, own: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=r"\[x-deb\] says"):
        made(bundle, context, **own)


def test_an_unknown_form_suggests_the_nearest(context: HostContext) -> None:
    with pytest.raises(
        TargetError, match=r"there is no package form 'debb' \(did you mean deb\?\)"
    ) as caught:
        packagers_of(wanted("debb"), context)
    assert re.search(r"forms beside the archive: .*\bdeb\b", str(caught.value.hint))


def nothing(bundle: Bundle, file: Path, *, context: HostContext) -> None:
    pass


def fails(bundle: Bundle, file: Path, *, context: HostContext) -> None:
    raise KeyError("dpkg")


def text(bundle: Bundle, file: Path, *, context: HostContext) -> None:
    file.write_text("a bundle")


def without_a_file(bundle: Bundle, file: Path, *, context: HostContext) -> None:
    entries = [each for each in bundle_entries(bundle, top="x") if not each.name.endswith(".json")]
    with file.open("wb") as out:
        write_tarball(out, entries, level=1, window_log=20)


def with_another_manifest(bundle: Bundle, file: Path, *, context: HostContext) -> None:
    manifest = json.dumps({**bundle.manifest, "edgepack": "9"}).encode()
    entries = [
        TarEntry(name=each.name, source=manifest) if each.name.endswith("/manifest.json") else each
        for each in bundle_entries(bundle, top="x")
    ]
    with file.open("wb") as out:
        write_tarball(out, entries, level=1, window_log=20)


def changing(bundle: Bundle, file: Path, *, context: HostContext) -> None:
    (bundle.directory / "more").touch()


def linked(bundle: Bundle, file: Path, *, context: HostContext) -> None:
    file.symlink_to(bundle.directory)


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", ["../box.run", "/tmp/box.run", "", ".", "a\0b", "a\nb", "BUNDLE", "BUNDLE.tar.zst", "BUNDLE.report.json", 7, b"box.run", Path("box.run")])  # fmt: skip
def test_a_package_has_a_plain_name_of_its_own(
    bundle: Bundle, context: HostContext, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    said = name.replace("BUNDLE", bundle.name) if isinstance(name, str) else name
    packager = types.SimpleNamespace(file_name=lambda bundle: said, pack=text)
    box = Extension(name="box", summary="", plugin="boxes", identity="1", make=lambda target: packager)
    monkeypatch.setattr(HostContext, "extensions", lambda self, axis: {"box": box})
    with pytest.raises(PluginError, match="plugin boxes: file_name of package box returned "):
        made(bundle, context, form="box")


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (changing, "plugin boxes changed the bundle in package box: .*more is not in the manifest"),
        (linked, "the box package is not at "),
        (nothing, "the box package is not at "),
        (fails, "plugin boxes failed in package box: KeyError: 'dpkg'"),
        (text, "does not hold the bundle: .* is not a bundle's archive, or is damaged"),
        (without_a_file, "does not hold the bundle"),
        (with_another_manifest, "holds another bundle than the one that was verified"),
    ],
)
def test_a_packager_that_does_not_pack_the_bundle_is_named(
    bundle: Bundle,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[..., None],
    words: str,
) -> None:
    packager = types.SimpleNamespace(file_name=lambda bundle: "box.tar.zst", pack=pack)
    box = Extension(name="box", summary="", plugin="boxes", identity="1", make=lambda target: packager)
    monkeypatch.setattr(HostContext, "extensions", lambda self, axis: {"box": box})
    with pytest.raises(PluginError, match=words):
        made(bundle, context, form="box")
