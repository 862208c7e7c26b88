"""Real bundles through a real registry, and the real clients that people have: skopeo, umoci, podman, oras."""

import base64
import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import shared_bundle
from tests.support.bare_root import CHROOT, NOBODY
from tests.support.command import edgepack
from tests.support.oci_tools import OciTools, oci_tools

from edgepack.bundles.manifest import digest, open_bundle
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

LARGEST = 26_000_000
"""Bytes that a device downloads of the smallest image."""
BCRYPT = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
"""Of ``secret``."""


@pytest.fixture(scope="module")
def tools() -> OciTools:
    return oci_tools()


@contextmanager
def running(tools: OciTools, folder: Path, auth: str = "") -> Iterator[str]:
    """Debian's docker-registry on the loopback; host and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    folder.mkdir()
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{host}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: '{folder}/data'}}}}\n{auth}"
    )
    program = tools.program("docker-registry")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        wait_for(server, host, folder / "log")
        yield host
    finally:
        server.terminate()
        server.wait()


def wait_for(server: subprocess.Popen[bytes], host: str, log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"http://{host}/v2/")
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def registry(tools: OciTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tools, tmp_path_factory.mktemp("registry") / "server") as host:
        yield host


@pytest.fixture(scope="module")
def arm_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return shared_bundle(tmp_path_factory, "linux-arm64-min")


@pytest.fixture(scope="module")
def pushed(registry: str, native_bundle: Bundle, arm_bundle: Bundle) -> str:
    """The name of what was pushed: both bundles, as image and ModelPack."""
    name = f"{registry}/team/embed:1.0"
    done = edgepack("push", str(native_bundle.directory), str(arm_bundle.directory), name, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [each["platform"] for each in said["bundles"]] == ["linux/amd64", "linux/arm64"]
    assert all(each["size"] <= LARGEST for each in said["bundles"])
    return name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of the clients: a folder of their own, where every image is accepted."""
    folder = tmp_path / "home"
    (folder / ".config/containers").mkdir(parents=True)
    policy = {"default": [{"type": "insecureAcceptAnything"}]}
    (folder / ".config/containers/policy.json").write_text(json.dumps(policy))
    return folder


def require_answers(root: Path) -> None:
    """The image's program, in its root and nothing else, as the user that the image says."""
    if os.geteuid() != 0:
        pytest.skip("enters the root of an image: needs root")
    command = ["env", "-i", CHROOT, f"--userspec={NOBODY}", str(root), "/models/embed", "--self-test"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_pushed_is_pulled_and_sent_once(pushed: str, native_bundle: Bundle, tmp_path: Path) -> None:
    done = edgepack("pull", pushed, "-o", str(tmp_path / "out"), "--platform", "linux/amd64")
    assert done.returncode == 0, done.stderr
    assert digest(open_bundle(tmp_path / "out")) == digest(native_bundle)
    again = pushed.replace("/embed:", "/again:")
    done = edgepack("push", str(native_bundle.directory), again, "--json")
    assert json.loads(done.stdout)["layers"] == {"mounted": 6}, done.stderr
    done = edgepack("push", str(native_bundle.directory), again, "--json")
    assert json.loads(done.stdout)["layers"] == {"there": 6}


def test_skopeo_copies_the_image_and_umoci_unpacks_one_that_runs(
    pushed: str, tools: OciTools, home: Path
) -> None:
    source = ("--src-tls-verify=false", f"docker://{pushed}")
    tools.run("skopeo", "copy", "--override-arch=amd64", *source, "oci:image:1.0", home=home)
    tools.run("umoci", "unpack", "--image", "image:1.0", "unpacked", home=home)
    config = json.loads((home / "unpacked/config.json").read_text())
    assert config["process"]["args"] == ["/models/embed"] and config["process"]["user"]["uid"] == 65534
    require_answers(home / "unpacked/rootfs")


def test_skopeo_takes_the_arm_image_and_it_runs_in_an_emulator(
    pushed: str, tools: OciTools, home: Path, shared_context: HostContext
) -> None:
    source = ("--src-tls-verify=false", f"docker://{pushed}")
    tools.run("skopeo", "copy", "--override-arch=arm64", *source, "oci:image:1.0", home=home)
    tools.run("umoci", "unpack", "--image", "image:1.0", "unpacked", home=home)
    root = home / "unpacked/rootfs"
    emulator = find_emulator("aarch64", context=shared_context)
    program = str(emulator.command("max")[0])
    done = subprocess.run(
        [program, "-L", root, root / "models/embed", "--self-test"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_skopeo_copies_everything_between_layouts_and_registries(
    pushed: str, tools: OciTools, home: Path, registry: str, native_bundle: Bundle, tmp_path: Path
) -> None:
    made = edgepack("push", str(native_bundle.directory), f"oci:{home}/layout:1.0", "--json")
    assert made.returncode == 0, made.stderr
    there = f"{registry}/team/copied:1.0"
    everything = (
        "copy",
        "--all",
        "--preserve-digests",
        "--dest-tls-verify=false",
        "oci:layout:1.0",
        f"docker://{there}",
    )
    tools.run("skopeo", *everything, home=home)
    done = edgepack("pull", there, "-o", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    pinned = json.loads(made.stdout)["reference"].partition("@")[2]
    assert json.loads(done.stdout)["reference"].endswith(f"@{pinned}")
    assert digest(open_bundle(tmp_path / "out")) == digest(native_bundle)


def test_podman_pulls_and_mounts_an_image_that_runs(
    pushed: str, tools: OciTools, home: Path, tmp_path: Path
) -> None:
    """``podman run`` itself wants control groups that a build machine may not have."""
    if os.geteuid() != 0:
        pytest.skip("podman mounts an image: needs root")
    # Its folder for what runs may have a name of 50 letters at most.
    run = tempfile.mkdtemp(prefix="podman-")
    folders = [f"--root={tmp_path}/root", f"--runroot={run}", "--storage-driver=vfs"]
    policy = f"--signature-policy={home}/.config/containers/policy.json"
    # It asks for them although nothing is run.
    needed = f'conmon_path = ["{tools.program("conmon")}"]\nruntime = "{tools.program("crun")}"\n'
    (home / "conf").write_text(f"[engine]\n{needed}")

    def podman(*words: str) -> str:
        return tools.run("podman", *folders, *words, home=home, CONTAINERS_CONF=str(home / "conf"))

    podman("pull", policy, "--tls-verify=false", "--arch=amd64", pushed)
    (said,) = json.loads(podman("image", "inspect", pushed))
    assert (said["Architecture"], said["User"]) == ("amd64", NOBODY)
    root = Path(podman("image", "mount", pushed).strip())
    require_answers(root)
    podman("image", "unmount", pushed)
    shutil.rmtree(run, ignore_errors=True)


def test_oras_sees_a_modelpack_and_gets_its_layers(
    pushed: str, tools: OciTools, home: Path, native_bundle: Bundle, tmp_path: Path
) -> None:
    model = f"{pushed}-modelpack-amd64"
    manifest = json.loads(tools.run("oras", "manifest", "fetch", "--plain-http", model, home=home))
    assert manifest["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    tools.run("oras", "pull", "--plain-http", "-o", "files", model, home=home)
    for layer in (home / "files").glob("*.tar.gz"):
        with tarfile.open(layer) as tar:
            tar.extractall(home / "unpacked", filter="data")
    for file in native_bundle.manifest["files"]:
        assert (home / "unpacked/models" / file["path"]).read_bytes() == (
            native_bundle.directory / file["path"]
        ).read_bytes()
    tools.run("oras", "copy", "--from-plain-http", pushed, "--to-oci-layout", "layout:1.0", home=home)
    done = edgepack(
        "pull", f"oci:{home}/layout:1.0", "-o", str(tmp_path / "out"), "--platform", "linux/amd64"
    )
    assert done.returncode == 0, done.stderr
    assert digest(open_bundle(tmp_path / "out")) == digest(native_bundle)


def test_a_registry_with_a_password(tools: OciTools, tmp_path: Path, native_bundle: Bundle) -> None:
    (tmp_path / "htpasswd").write_text(f"me:{BCRYPT}\n")
    auth = f"auth: {{htpasswd: {{realm: here, path: '{tmp_path}/htpasswd'}}}}\n"
    with running(tools, tmp_path / "server", auth) as host:
        words = ("push", str(native_bundle.directory), f"{host}/team/embed:1.0")
        env = {"REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")}
        refused = edgepack(*words, env=env)
        assert "requires a login" in refused.stderr and refused.returncode == 23, refused.stderr
        pair = base64.b64encode(b"me:secret").decode()
        (tmp_path / "auth.json").write_text(json.dumps({"auths": {host: {"auth": pair}}}))
        done = edgepack(*words, env=env)
        assert done.returncode == 0, done.stderr
