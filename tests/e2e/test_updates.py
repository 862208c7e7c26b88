"""Updates of real bundles: by deltas, by RAUC and by Mender, each read by its own client."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.command import edgepack
from tests.support.debian_clients import debian_client, in_namespace

from edgepack.bundles.manifest import digest, open_bundle
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack_updates import applying
from edgepack_updates.mender import MenderArtifact

pytestmark = pytest.mark.e2e
DATA = Path(applying.__file__).parent / "data"


@pytest.mark.slow
def test_the_next_bundle_by_a_delta(native_bundle: Bundle, library_bundle: Bundle, tmp_path: Path) -> None:
    """With a library that the first did not have: the model is not sent again, and an index can stay."""
    assert native_bundle.archive is not None
    said = edgepack("diff", str(native_bundle.archive), str(library_bundle.directory), "--json")
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert found["verdict"]["outcome"] == "same" and found["drift"]["by"] == "programs"
    assert found["update"] < found["archive_after"] / 10
    embedders = {each.manifest["model"]["embedder"] for each in (native_bundle, library_bundle)}
    assert len(embedders) == 1

    delta = tmp_path / "next.delta"
    made = edgepack("delta", str(native_bundle.directory), str(library_bundle.directory), "-o", str(delta))
    assert made.returncode == 0, made.stderr
    assert delta.stat().st_size == found["update"]
    device = tmp_path / "device"
    shutil.copytree(native_bundle.directory, device)
    old = subprocess.Popen([device / "embed", "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    applied = edgepack("apply", str(delta), str(device), "--json")
    assert applied.returncode == 0, applied.stderr
    assert json.loads(applied.stdout)["digest"] == digest(library_bundle) == digest(open_bundle(device))
    assert b"embedding" in old.communicate(b'{"text": "still here"}\n')[0], (
        "a running program keeps its files"
    )
    again = edgepack("apply", str(delta), str(device))
    assert "was the new bundle already" in again.stdout


BOOT = """#!/bin/sh
cd {state}
case $1 in
  get-primary) cat primary ;;
  set-primary) echo "$2" >primary ;;
  get-state) cat "$2" ;;
  set-state) echo "$3" >"$2" ;;
esac
"""
RAUC = """
A=$(losetup --show --find a.img) || { echo SKIP: no loop device; exit; }
B=$(losetup --show --find b.img)
PIDS=
trap 'kill $PIDS 2>/dev/null || true; umount mnt/rauc/* slot 2>/dev/null || true; losetup -d "$A" "$B"' EXIT
mkfs.ext4 -q "$A" && mkfs.ext4 -q "$B"
mkdir -p slot mnt input state
mount "$A" slot && cp -r old slot/bundle && umount slot
sed -i "s|DEVICE_A|$A|; s|DEVICE_B|$B|" system.conf
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=test -days 3650 2>openssl.log
cp "$NEW" input/bundle.tar.zst
rauc bundle --cert=cert.pem --key=key.pem input update.raucb

dbus-daemon --session --address=unix:path=$PWD/bus --nofork --nopidfile & PIDS=$!
export DBUS_SESSION_BUS_ADDRESS=unix:path=$PWD/bus DBUS_STARTER_BUS_TYPE=session
service() {
  rauc --conf=system.conf --override-boot-slot=$1 service >>service.log 2>&1 & SERVICE=$!
  PIDS="$PIDS $SERVICE"
  for i in $(seq 300); do rauc status >/dev/null 2>&1 && return; sleep 0.2; done
  cat service.log; exit 1
}
runs() { mount -o ro "$1" slot; slot/*/embed "$2" >"$3"; cp slot/*/manifest.json "$3.manifest"; umount slot; }

service A
head -c 2000000 update.raucb >half.raucb
! rauc install half.raucb
runs "$A" hello after-half
rauc install update.raucb
echo "primary $(cat state/primary)"
kill $SERVICE; wait $SERVICE || true
service B
runs "$B" hello updated
rauc status mark-bad booted
rauc status mark-active other
echo "primary $(cat state/primary), B is $(cat state/B)"
runs "$A" hello rolled-back
"""
SYSTEM = """[system]
compatible=kiosk
bootloader=custom
mountprefix={folder}/mnt
statusfile={folder}/rauc.status
[handlers]
bootloader-custom-backend={folder}/boot
[keyring]
path={folder}/cert.pem
[slot.bundle.0]
device=DEVICE_A
type=ext4
bootname=A
[slot.bundle.1]
device=DEVICE_B
type=ext4
bootname=B
"""
MANIFEST = """[update]
compatible=kiosk
version=2

[bundle]
format=plain

[image.bundle]
filename=bundle.tar.zst
"""


@pytest.mark.slow
@pytest.mark.tools(
    "apt-get", "dpkg-deb", "losetup", "mkfs.ext4", "openssl", "dbus-daemon", "unshare", may=("rauc", "env")
)
def test_rauc_installs_an_archive_into_a_slot_and_goes_back(
    native_bundle: Bundle, library_bundle: Bundle, tmp_path: Path
) -> None:
    environment = debian_client("rauc")
    shutil.copytree(native_bundle.directory, tmp_path / "old")
    for name in ("a.img", "b.img"):
        with (tmp_path / name).open("wb") as image:
            image.truncate(96 << 20)
    for folder in ("state", "input"):
        (tmp_path / folder).mkdir()
    for name, state in (("primary", "A"), ("A", "good"), ("B", "bad")):
        (tmp_path / "state" / name).write_text(state + "\n")
    (tmp_path / "boot").write_text(BOOT.format(state=tmp_path / "state"))
    (tmp_path / "boot").chmod(0o755)
    (tmp_path / "system.conf").write_text(SYSTEM.format(folder=tmp_path))
    (tmp_path / "input/manifest.raucm").write_text(MANIFEST)
    said = in_namespace(RAUC, tmp_path, {**environment, "NEW": str(library_bundle.archive)})
    assert [line for line in said.splitlines() if line.startswith("primary")] == [
        "primary B",
        "primary A, B is bad",
    ]
    manifests = {
        name: json.loads((tmp_path / f"{name}.manifest").read_text())
        for name in ("after-half", "updated", "rolled-back")
    }
    assert manifests["updated"] == library_bundle.manifest
    assert manifests["rolled-back"] == manifests["after-half"] == native_bundle.manifest
    vectors = {(tmp_path / name).read_text() for name in manifests}
    assert len(vectors) == 1 and "embedding" in vectors.pop()


MENDER = """
for d in /usr/share /etc; do
  mkdir -p "layers$d/up" "layers$d/work"
  mount -t overlay overlay -o "lowerdir=$d,upperdir=$PWD/layers$d/up,workdir=$PWD/layers$d/work" "$d" 2>/dev/null ||
    { echo SKIP: no overlays of one\\'s own here; exit; }
done
mkdir -p /usr/share/mender/modules/v3 /etc/mender data
install -m 755 "$MODULE" /usr/share/mender/modules/v3/edgepack
echo artifact_name=none >/etc/mender/artifact_info
echo device_type=kiosk >data/device_type
echo '{}' >mender.conf
mender() { command mender --config mender.conf --fallback-config none.conf --data "$PWD/data" --no-syslog -l error "$@"; }
shows() { mender show-artifact; "$EDGEPACK_HOME/current/embed" hello >"$1"; cp "$EDGEPACK_HOME/current/manifest.json" "$1.manifest"; }

mender install one.mender >/dev/null && mender commit >/dev/null
shows first
mender install two.mender >/dev/null
shows second
mender rollback >/dev/null
shows back
head -c 3000000 two.mender >half.mender
! mender install half.mender >/dev/null 2>&1
shows after-half
mender install two.mender >/dev/null && mender commit >/dev/null
shows last
ls "$EDGEPACK_HOME" | grep -c bundle-
"""


@pytest.mark.slow
@pytest.mark.tools("apt-get", "dpkg-deb", "unshare", "mount", may=("mender", "env"))
def test_mender_installs_an_artifact_and_goes_back(
    native_bundle: Bundle, library_bundle: Bundle, tmp_path: Path, shared_context: HostContext
) -> None:
    environment = debian_client("mender")
    bundles = {"one": native_bundle, "two": library_bundle}
    for name, bundle in bundles.items():
        artifact = MenderArtifact(version=name, device_types=("kiosk",))
        artifact.pack(bundle, tmp_path / f"{name}.mender", context=shared_context)
    home = tmp_path / "home"
    module = {"MODULE": str(DATA / "mender-module.sh"), "EDGEPACK_HOME": str(home)}
    said = in_namespace(MENDER, tmp_path, {**environment, **module, "HOME": str(tmp_path)})
    names = [f"{bundles[name].name}-{name}" for name in ("one", "one", "one", "one", "two")]
    assert said.split() == [*names, "1"]
    manifests = [
        json.loads((tmp_path / f"{name}.manifest").read_text())
        for name in ("first", "second", "back", "after-half", "last")
    ]
    first, second = native_bundle.manifest, library_bundle.manifest
    assert manifests == [first, second, first, first, second]
    assert (home / "current").readlink().name.startswith("bundle-")
