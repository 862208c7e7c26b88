"""Packages of the real bundle, installed by those that people install them with, and used."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.bare_root import CHROOT, bare_root
from tests.support.bundles import made_bundle
from tests.support.command import edgepack
from tests.support.npm_tools import required_tools
from tests.support.once import made_once

from edgepack.bundles.manifest import digest, open_bundle
from edgepack.bundles.packages import make_packages, packagers_of
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle
from edgepack.records.target import Platform
from edgepack_web.npm.node import find_node, npm_command

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(3600),
    pytest.mark.builds("packages are made by the build, with a version of their own"),
]

MODULE = "all_minilm_l6_v2"
NAME = "all-minilm-l6-v2-linux-x86-min"
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
USE = """
import json, sys
from all_minilm_l6_v2 import EmbedError, encode
golden = json.load(open(sys.argv[1]))
vectors = encode(golden["texts"])
cosines = [sum(a * b for a, b in zip(*pair)) for pair in zip(vectors, golden["vectors"])]
assert min(cosines) > 0.9999, cosines
one = encode("a cat")
assert type(one) is list and type(one[0]) is float and len(one) == len(vectors[0]), one
assert encode(["a cat"])[0] == one
for wrong in ({"prefix": "query"}, {"dim": 64}):
    try:
        encode("a cat", **wrong)
    except ValueError as error:
        assert "all-MiniLM-L6-v2" in str(error), error
    else:
        raise AssertionError(wrong)
print("numpy" in sys.modules, sys.version_info[:2])
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the archive, report and packages of one build."""
    forms = ("--as", "wheel", "--as", "deb", "--set", "package.version=1.2.0", "--gate", "off")
    return made_once(tmp_path_factory, "packed", lambda folder: made_bundle("linux-x86-min", folder, *forms))


@pytest.fixture(scope="module")
def with_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    forms = ("--as", "wheel", "--set", "library=true")
    return made_once(
        tmp_path_factory, "packed-library", lambda folder: made_bundle("linux-x86-min", folder, *forms)
    )


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def pythons() -> Iterator[str]:
    """Every Python on this machine that the wheel is for."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        beside = sorted(versions.glob(f"{version}.*/bin/python3"))
        if program := str(beside[-1]) if beside else shutil.which(f"python{version}"):
            yield program


def own_pip(python: str) -> str:
    """The wheel that this Python installs its pip from: to install that first takes seconds of processor time."""
    code = "import ensurepip as e, glob; print((glob.glob(e.__path__[0] + '/_bundled/pip-*.whl') or glob.glob('/usr/share/python-wheels/pip-*.whl'))[0])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def installed(python: str, wheel: Path, folder: Path) -> Path:
    """An environment with nothing but the wheel in it, read-only; its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    inside = folder / "bin/python"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([inside, f"{own_pip(python)}/pip", "install", *quiet, wheel], check=True)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o555)
    return inside


def used(python: Path, bundle: Path) -> str:
    done = subprocess.run(
        [python, "-I", "-W", "error", "-c", USE, bundle / "golden.json"],
        capture_output=True,
        text=True,
        env={},
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(packed: Path) -> Path:
    """The bundle that was packed."""
    return next(each for each in packed.iterdir() if each.is_dir())


def oldest_and_newest() -> list[pytest.ParameterSet]:
    """What lies between them is for ``--slow``."""
    found = list(pythons())
    between = found[1:-1]
    return [pytest.param(each, marks=pytest.mark.slow if each in between else ()) for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("python", oldest_and_newest())
def test_pip_installs_the_wheel_and_nothing_else(
    packed: Path, folder: Path, tmp_path: Path, python: str
) -> None:
    wheel = only(packed, "*.whl")
    assert wheel.name == f"{MODULE}-1.2.0-py3-none-manylinux_2_28_x86_64.whl"
    inside = installed(python, wheel, tmp_path / "environment")
    assert used(inside, folder).startswith("False ")
    site = next((tmp_path / "environment/lib").glob("python*/site-packages"))
    assert digest(open_bundle(site / MODULE / "bundle")) == digest(open_bundle(folder))
    command = tmp_path / "environment/bin/all-minilm-l6-v2"
    done = subprocess.run([command, "--self-test"], env={}, check=False)
    assert done.returncode == 0
    as_module = [str(inside), "-m", MODULE, "--similarity", "a cat", "a cat"]
    assert subprocess.run(as_module, capture_output=True, text=True, check=True).stdout == "1.000000\n"


@pytest.mark.slow
def test_a_wheel_with_the_library_starts_no_program(with_library: Path, tmp_path: Path) -> None:
    inside = installed(sys.executable, only(with_library, "*.whl"), tmp_path / "environment")
    folder = next(each for each in with_library.iterdir() if each.is_dir())
    code = USE + (
        "\nimport os\nassert not open(f'/proc/self/task/{os.getpid()}/children').read()\n"
        "child = os.fork()\n"
        "if not child:\n    os._exit(0 if encode('a cat') == one else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    done = subprocess.run(
        [inside, "-I", "-W", "error", "-c", code, folder / "golden.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_packages_are_small_and_reported(packed: Path, with_library: Path) -> None:
    report = json.loads(only(packed, "*.report.json").read_text())
    sizes = {each["form"]: (each["file"], each["size"]) for each in report["packages"]}
    assert sizes == {
        form: (file.name, file.stat().st_size)
        for form, file in (("wheel", only(packed, "*.whl")), ("deb", only(packed, "*.deb")))
    }
    assert sizes["wheel"][1] <= 22_000_000
    assert only(with_library, "*.whl").stat().st_size <= 22_000_000
    done = edgepack("report", str(next(each for each in packed.iterdir() if each.is_dir())), "--json")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*.whl", "*.deb"])
def test_packages_are_verified(packed: Path, pattern: str) -> None:
    done = edgepack("verify", str(only(packed, pattern)), "--gate", "quick", "--offline", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "passed"


def packed_as(form: str, bundle: Bundle, context: HostContext) -> Path:
    """A bundle that another test made, in one form."""
    platform = bundle.manifest["target"]["platform"]
    target = replace(
        load_plugins().target("linux-x86"),
        platform=Platform(os=platform["os"], arch=platform["arch"], glibc=platform["glibc"]),
        packages=(form,),
    )
    (package,) = make_packages(bundle, packagers_of(target, context), context=context)
    return package.file


@pytest.mark.slow
def test_a_wheel_of_the_frozen_program(frozen_bundle: Bundle, context: HostContext, tmp_path: Path) -> None:
    inside = installed(sys.executable, packed_as("wheel", frozen_bundle, context), tmp_path / "environment")
    assert used(inside, frozen_bundle.directory).startswith("False ")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg on this machine")
def test_the_unit_starts_the_server(frozen_bundle: Bundle, context: HostContext, tmp_path: Path) -> None:
    file, root = packed_as("deb", frozen_bundle, context), tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", file, root], check=True)
    unit = only(root / "usr/lib/systemd/system", "*.service").read_text()
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *words = command.split()
    done = subprocess.run([root / program[1:], *words, "--check"], env={}, timeout=100, check=False)
    assert done.returncode == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A Debian system, as far as dpkg and the package's scripts need one."""
    if shutil.which("dpkg") is None or os.geteuid() != 0:
        pytest.skip("installs a Debian package in a root of its own: needs dpkg, and to be root")
    root = tmp_path / "root"
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc/alternatives", "usr/bin", "tmp", "dev"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / link).mkdir(exist_ok=True)
        (root / link).symlink_to(f"usr/{link}")
    (root / "var/lib/dpkg/alternatives").mkdir()
    (root / "var/lib/dpkg/status").write_text(
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.28-1\n"
        "Maintainer: nobody\nDescription: the C library\n\n"
    )
    (root / "dev/null").touch()
    bare_root(root)
    for program in ("sh", "rm", "update-alternatives"):
        copied(Path(shutil.which(program) or ""), root)
    return root


def copied(program: Path, root: Path) -> None:
    """A program and what it is linked to."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    words = [word for line in listing.splitlines() for word in line.split() if word.startswith("/")]
    for name in [str(program), *words]:
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(name).resolve(), place)
        place.chmod(0o755)


@pytest.mark.slow
def test_dpkg_installs_and_removes_the_package(packed: Path, folder: Path, root: Path) -> None:
    def dpkg(*words: str | Path) -> None:
        done = subprocess.run(["dpkg", f"--root={root}", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def inside(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin"}
        return subprocess.run(
            [CHROOT, root, *words], capture_output=True, text=True, env=environment, check=False
        )

    dpkg("--install", only(packed, "*.deb"))
    assert digest(open_bundle(root / "usr/lib/edgepack" / folder.name)) == digest(open_bundle(folder))
    for program in ("embed", NAME):
        done = inside("sh", "-c", f"{program} --similarity 'a cat' 'a cat'")
        assert done.stdout == "1.000000\n", done.stderr
    assert inside("embed", "--self-test").returncode == 0
    dpkg("--remove", NAME)
    assert not (root / "usr/lib/edgepack").exists()
    assert not (root / "usr/bin/embed").is_symlink()


ASK = """
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { close, cosine, encode } from "all-minilm-l6-v2";
const golden = JSON.parse(readFileSync("golden.json", "utf8"));
const vectors = await encode(golden.texts);
const bits = createHash("sha256");
vectors.forEach((vector) => bits.update(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)));
const lowest = Math.min(...vectors.map((vector, at) => cosine(vector, golden.vectors[at])));
const one = await encode(golden.texts[0]);
const refused = await encode("a cat", { prefix: "query" }).catch((error) => error.name);
console.log(lowest > golden.tolerance, one.length, cosine(one, vectors[0]) > 0.999, refused, bits.digest("hex"));
if (typeof Deno !== "undefined") await close();
"""
TYPED = """
import { close, encode, type EmbedOptions } from "all-minilm-l6-v2";
const options: EmbedOptions = { dim: 64 };
export const one: Float32Array = await encode("a cat", options);
export const several: Float32Array[] = await encode(new Set(["a cat"]));
await close();
"""


@pytest.fixture(scope="module")
def packed_for_npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With npm's own runtime, which is there without a compiler."""
    options = ("runtime=stock", "copies=false", "package.version=1.2.0", 'budget.download="30 MB"')
    settings = [word for each in options for word in ("--set", each)]
    return made_once(
        tmp_path_factory,
        "packed-for-npm",
        lambda folder: made_bundle("web-wasm", folder, "--as", "npm", *settings),
    )


ON_ENGINE = pytest.param("web-fast", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=["web-wasm", ON_ENGINE])
def packed_small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a runtime that has this model's operators, and no threads; or on edgepack's engine."""
    if request.param == "web-wasm":
        request.getfixturevalue("online")
    return small_package(request.param, tmp_path_factory)


def small_package(target: str, factory: pytest.TempPathFactory) -> Path:
    options = ("--as", "npm", "--set", "copies=false")
    return made_once(factory, f"packed-{target}", lambda folder: made_bundle(target, folder, *options))


@pytest.fixture(params=["stock", ON_ENGINE])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """With the package on npm's runtime, or on edgepack's engine."""
    if request.param == "stock":
        return with_package(request.getfixturevalue("packed_for_npm"), tmp_path)
    return with_package(small_package(request.param, tmp_path_factory), tmp_path)


def with_package(packed: Path, folder: Path) -> Path:
    """A folder in which npm installed the package, and nothing else."""
    (folder / "package.json").write_text('{"name": "app", "private": true, "type": "module"}')
    install = [*npm_command(), "install", "--offline", "--no-audit", "--no-fund", only(packed, "*.tgz")]
    subprocess.run(install, cwd=folder, check=True)
    assert [each.name for each in (folder / "node_modules").glob("[!.]*")] == ["all-minilm-l6-v2"]
    bundle = next(each for each in packed.iterdir() if each.is_dir())
    inside = folder / "node_modules/all-minilm-l6-v2/bundle"
    assert digest(open_bundle(inside)) == digest(open_bundle(bundle))
    shutil.copy(bundle / "golden.json", folder)
    (folder / "ask.mjs").write_text(ASK)
    (folder / "ask.ts").write_text(TYPED)
    return folder


def client(name: str) -> list[str | Path]:
    """How a JavaScript runtime is started; or the test is skipped."""
    if name == "node":
        return [find_node()]
    tools = required_tools() / "node_modules"
    if name == "bun":
        # Without its installation script, which puts it elsewhere.
        return [sorted(tools.glob("@oven/bun-linux-*/bin/bun"))[0]]
    return [tools / ".bin/deno", "run", "--allow-read", "--no-prompt"]


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["node", "bun", "deno"])
def test_npm_s_package_is_imported_by_name(app: Path, runtime: str) -> None:
    environment = {**os.environ, "DENO_DIR": str(app / "deno")}
    done = subprocess.run(
        [*client(runtime), "ask.mjs"],
        cwd=app,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    *words, bits = done.stdout.split()
    assert words == ["true", "384", "true", "RangeError"], done.stderr
    assert bits == bits_of(app / "node_modules/all-minilm-l6-v2/bundle", bits)


def bits_of(bundle: Path, found: str) -> str:
    """The digest of the golden texts' vectors, in the manifest of what has the same bits everywhere; others have what was ``found``."""
    return str(open_bundle(bundle).manifest["model"].get("vectors_sha256", found))


WORKER = """
import { encode } from "./package/workerd.mjs";
export default {
  async fetch(request) {
    const vectors = await encode(await request.json());
    const refused = await encode("a cat", { prefix: "query" }).catch((error) => error.name);
    return new Response(JSON.stringify({ vectors: vectors.map((vector) => Array.from(vector)), refused }));
  },
};
"""
CONFIG = """using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker)],
  sockets = [(name = "http", address = "127.0.0.1:{port}", http = (), service = "main")]
);
const worker :Workerd.Worker = (modules = [{modules}], compatibilityDate = "2026-11-01");
"""
KINDS = {".mjs": "esModule", ".wasm": "wasm", ".bin": "data"}


@pytest.fixture
def workerd(packed_small: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a worker that has the package's modules, as a bundler hands them over."""
    program = sorted((required_tools() / "node_modules").glob("@cloudflare/workerd-linux-*/bin/workerd"))[0]
    app = with_package(packed_small, tmp_path)
    package = app / "node_modules/all-minilm-l6-v2"
    (app / "package").symlink_to(package)
    (app / "worker.mjs").write_text(WORKER)
    imported = re.findall(r'from "\./([^"]+)"', (package / "workerd.mjs").read_text())
    names = ["worker.mjs", *(f"package/{name}" for name in ("workerd.mjs", *dict.fromkeys(imported)))]
    modules = ", ".join(f'(name = "{name}", {KINDS[Path(name).suffix]} = embed "{name}")' for name in names)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (app / "config.capnp").write_text(CONFIG.format(port=port, modules=modules))
    with subprocess.Popen([program, "serve", "config.capnp"], cwd=app) as serving:
        yield f"http://127.0.0.1:{port}/"
        serving.kill()


def test_workerd_has_npm_s_package_for_modules(workerd: str, tmp_path: Path) -> None:
    golden = json.loads((tmp_path / "golden.json").read_text())
    question = urllib.request.Request(workerd, data=json.dumps(golden["texts"]).encode())
    for attempt in range(100):
        try:
            with urllib.request.urlopen(question, timeout=60) as response:
                answer = json.load(response)
            break
        except urllib.error.URLError:
            assert attempt < 99
            time.sleep(0.1)
    assert answer["refused"] == "RangeError"
    for found, expected in zip(answer["vectors"], golden["vectors"], strict=True):
        assert sum(a * b for a, b in zip(found, expected, strict=True)) > golden["tolerance"]
    bits = hashlib.sha256(np.asarray(answer["vectors"], np.float32).tobytes()).hexdigest()
    assert bits == bits_of(tmp_path / "package/bundle", bits)


@pytest.mark.slow
def test_typescript_knows_npm_s_package(app: Path) -> None:
    tsc = required_tools() / "node_modules/.bin/tsc"
    settings = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom"]
    done = subprocess.run([tsc, *settings, "ask.ts"], cwd=app, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_npm_s_package_is_verified(packed_for_npm: Path) -> None:
    done = edgepack("verify", str(only(packed_for_npm, "*.tgz")), "--offline", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "passed"


def test_npm_s_package_is_small(packed_small: Path) -> None:
    assert only(packed_small, "*.tgz").stat().st_size <= 15_000_000


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("target", "form", "words"),
    [
        ("web-wasm", "deb", "a bundle for web on wasm32 cannot be packed as a Debian package"),
        ("web-wasm", "wheel", "a bundle for web on wasm32 is no wheel"),
        ("web-wasm", "npm", "--set copies=false"),
        ("linux-x86-min", "npm", "a bundle for linux by builder linux cannot be packed as an npm package"),
    ],
)
def test_what_has_no_such_package_is_said_before_anything_is_built(
    tmp_path: Path, target: str, form: str, words: str
) -> None:
    done = edgepack("bundle", "--target", target, "--as", form, "--output", str(tmp_path))
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert "model" not in done.stderr.split("error:")[0]
