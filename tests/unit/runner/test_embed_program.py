"""A bundle's own vectors where its program is a script; ``test_verifier.py`` has those of its program."""

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.native import compiler

from edgepack.context import BuildContext
from edgepack.errors import BundleError, CannotRunHere, MissingToolError, ProofError
from edgepack.foundry.proof.emulator import Qemu
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.tools import run_tool
from edgepack.verifier import run as embed_program
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.run import BundleRunner

ROOT = Path.cwd()
sandboxed = pytest.mark.skipif(find_sandbox() is None, reason="no sandbox works on this machine")
pytestmark = pytest.mark.tools("c++", "python", "env")


@pytest.fixture(scope="module")
def sample(native_sample: Path) -> Path:
    """Of Linux alone: scripts take the program's place."""
    return native_sample


def bundle_of(folder: Path, script: str | None = None) -> Bundle:
    """A bundle with its own program, or a script in its place."""
    if script is not None:
        (folder / "embed").write_text(script)
        (folder / "embed").chmod(0o755)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    links = [path.resolve() for path in folder.rglob("*") if path.is_symlink()]
    # Where the C++ runtime lies, of which the stock library asks.
    has = [str(place) for place in (Path("/usr/lib"), *links)]
    manifest["target"].setdefault("platform", {})["has"] = has
    return Bundle(directory=folder, manifest=manifest)


def test_no_texts_no_vectors(copy: Path, context: HostContext) -> None:
    assert BundleRunner(context=context, trusted=True).embed(bundle_of(copy), []) == []


def test_a_program_that_answers_without_end_is_ended(
    copy: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed_program, "limits_for", lambda bundle, texts: RunLimits(output=1 << 20))
    bundle = bundle_of(copy, "#!/bin/sh\nexec cat /dev/zero\n")
    with pytest.raises(ProofError, match="wrote more than"):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])


def test_a_program_that_only_waits_is_ended(
    copy: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose bundle was made here, by a plugin that is named."""
    monkeypatch.setattr(embed_program, "limits_for", lambda bundle, texts: RunLimits(seconds=0.5))
    bundle = bundle_of(copy, "#!/bin/sh\nsleep 3600\n")
    bundle = replace(bundle, manifest={**bundle.manifest, "made_by": {"plugin": "edgepack-bad"}})
    with pytest.raises(
        ProofError, match=r"^plugin edgepack-bad: the program of sample did not end within 0 s"
    ):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])


def test_the_environment_is_the_hosts_in_nothing(
    copy: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_SECRET", "seen")
    bundle = bundle_of(copy, "#!/bin/sh\n/usr/bin/env >&2\nexit 1\n")
    with pytest.raises(ProofError) as raised:
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])
    assert "EDGEPACK_SECRET" not in raised.value.message
    assert "HOME=/tmp" in raised.value.message


@sandboxed
def test_a_program_that_calls_another_bundles_is_not_self_contained(
    copy: Path, context: HostContext, tmp_path: Path
) -> None:
    """It is named, and is there: on the machine that builds it would pass."""
    other = bundle_of(copy)
    wrapper = tmp_path / "wrapper"
    shutil.copytree(copy, wrapper)
    runner = BundleRunner(context=context, trusted=True)
    assert runner.embed(other, ["a"])
    for script in (
        'exec {} "$@"',
        "cat {} > /dev/null || exit 3",
        "[ -x {} ] || {{ echo 'no {}: not found' >&2; exit 127; }}",
    ):
        bundle = bundle_of(wrapper, f"#!/bin/sh\n{script.format(other.program, other.program)}\n")
        with pytest.raises(ProofError) as raised:
            runner.embed(bundle, ["a"])
        assert f"needs {other.program}, which is not in the bundle" in raised.value.message
        assert "platform.has" in str(raised.value.hint)


@sandboxed
def test_what_the_target_says_that_devices_have_is_shown_of_ones_own_bundles_alone(
    copy: Path, context: HostContext, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hf_this_is_a_secret")
    bundle = bundle_of(copy, f"#!/bin/sh\ncat {secret} >&2\nexit 1\n")
    platform = {**bundle.manifest["target"]["platform"], "has": [str(secret)]}
    bundle = replace(
        bundle, manifest={**bundle.manifest, "target": {**bundle.manifest["target"], "platform": platform}}
    )
    for trusted, said in (
        (True, "hf_this_is_a_secret"),
        (False, f"needs {re.escape(str(secret))}, which"),
    ):
        with pytest.raises(ProofError, match=said):
            BundleRunner(context=context, trusted=trusted).embed(bundle, ["a"])


@sandboxed
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="this Python is of no virtual environment")
def test_a_python_that_devices_have_finds_its_packages_here(copy: Path, context: HostContext) -> None:
    """As the tutorial of a target of one's own has it: here its Python, and numpy, lie in a virtual environment."""
    bundle = bundle_of(copy, "import numpy, sys\nsys.exit(f'numpy {numpy.__version__}')\n")
    runner = {**bundle.manifest["runner"], "command": ["python3", bundle.manifest["runner"]["program"]]}
    target = {
        **bundle.manifest["target"],
        "platform": {**bundle.manifest["target"]["platform"], "has": ["python3"]},
    }
    bundle = replace(bundle, manifest={**bundle.manifest, "runner": runner, "target": target})
    with pytest.raises(ProofError, match=r"failed: numpy \d"):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])
    with pytest.raises(BundleError, match="'python3', which is neither a file of the bundle"):
        BundleRunner(context=context, trusted=False).embed(bundle, ["a"])


@sandboxed
def test_an_interpreter_that_is_nowhere_is_named(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy, "#!/opt/vendor/bin/infer\n")
    with pytest.raises(ProofError, match=r"needs /opt/vendor/bin/infer, which is not in the bundle"):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])


@sandboxed
def test_a_compiled_program_finds_the_c_library_and_nothing_else_of_the_system(
    copy: Path, context: HostContext
) -> None:
    """A library of a vendor's may lie in /usr/lib, where the machine that builds has it and devices do not."""
    bundle = bundle_of(copy)
    source = copy / "program.c"
    source.write_text(
        """#include <dlfcn.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            char *shown[] = {"/usr/bin/env", "/etc/passwd", "/usr/lib/os-release", "/etc/ld.so.conf"};
            for (int i = 0; i < 4; i++) if (!access(shown[i], F_OK)) return puts(shown[i]), 3;
            if (!dlopen("libm.so.6", RTLD_NOW)) return 4;
            void *other = dlopen("libz.so.1", RTLD_NOW);
            fprintf(stderr, "%s\\n", other ? "found" : dlerror());
            return 5;
        }"""
    )
    run_tool([*compiler(), "-o", bundle.program, source, "-ldl"])
    with pytest.raises(ProofError, match=r"needs libz\.so\.1, which is not in the bundle"):
        BundleRunner(context=context).embed(bundle, ["a"])


COMMANDS = (
    ["sh", "-c", "cat ~/.ssh/id_rsa >&2"],
    ["/bin/sh", "-c", "true"],
    ["HOME/tool", "/bin/sh"],
    ["./tool"],
    ["../tool"],
    ["embed/../../tool"],
    ["a=b", "true"],
    ["--version"],
    [""],
    ["env", "-S", "true"],
    ["python3", "-c", "1"],
    ["node/../sh"],
    ["/proc/self/exe"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
@pytest.mark.parametrize("trusted", [False, True])
def test_a_command_begins_with_the_bundles_program(
    copy: Path, context: HostContext, command: list[str], trusted: bool, tmp_path: Path
) -> None:
    """Or with a name that its platform declares: never with a program of the host's that the manifest chooses."""
    (tmp_path / "tool").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "tool").chmod(0o755)
    words = [word.replace("HOME", str(tmp_path)) for word in command]
    bundle = bundle_of(copy)
    bundle = replace(
        bundle, manifest={**bundle.manifest, "runner": {**bundle.manifest["runner"], "command": words}}
    )
    with pytest.raises(
        BundleError, match="which is neither a file of the bundle nor a program that its devices have"
    ):
        BundleRunner(context=context, trusted=trusted).embed(bundle, ["a"])


def test_a_failing_program_shows_its_last_words(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy, "#!/bin/sh\necho 'error: the moon is full' >&2\nexit 5\n")
    with pytest.raises(ProofError, match="the moon is full"):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])


def test_a_program_that_is_killed_is_told(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy, "#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(ProofError, match="signal 9"):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])


def serving(bundle: Bundle, **model: Any) -> Bundle:
    manifest = {**bundle.manifest, "model": {**bundle.manifest["model"], **model}}
    return replace(bundle, manifest={**manifest, "runner": {**bundle.manifest["runner"], "serve": True}})


def test_a_server_is_asked_where_there_is_one(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy)
    runner = BundleRunner(context=context, trusted=True)
    bundle = bundle_of(copy, '#!/bin/sh\necho "$@" >&2\nexit 1\n')
    runner.require_server(bundle)  # its manifest says that it has none
    runner.require_server(serving(bundle, task="classes"))  # the server offers no classes
    runner.require_server(serving(bundle, outputs={"dense": False, "multi_vector": {}}))
    for model in ({}, {"task": "rank"}, {"outputs": {"dense": False, "sparse": {"of": "vocabulary"}}}):
        with pytest.raises(ProofError, match=r"failed: serve --check --port 0$"):
            runner.require_server(serving(bundle, **model))


def test_a_server_that_does_not_answer_is_refused(copy: Path, context: HostContext) -> None:
    bundle = serving(bundle_of(copy, "#!/bin/sh\necho 'error: the moon is full' >&2\nexit 5\n"))
    with pytest.raises(ProofError, match="the moon is full"):
        BundleRunner(context=context, trusted=True).require_server(bundle)


@pytest.mark.parametrize(
    "answer", ["", "nonsense", '{"embedding": [1, 2]}', '{"text": "a"}', '{"embedding": "x"}', "[1]"]
)
def test_an_answer_that_is_not_vectors_is_refused(copy: Path, context: HostContext, answer: str) -> None:
    bundle = bundle_of(copy, f"#!/bin/sh\ncat > /dev/null\necho {shlex.quote(answer)}\n")
    with pytest.raises(ProofError):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])


def of_processor(bundle: Bundle, arch: str, number: int) -> Bundle:
    """Its program has the number that ELF has for a processor."""
    bundle.program.write_bytes(b"\x7fELF" + bytes(14) + number.to_bytes(2, "little"))
    target = {**bundle.manifest["target"], "platform": {"os": "linux", "arch": arch}}
    return replace(bundle, manifest={**bundle.manifest, "target": target})


@pytest.mark.parametrize("device", [{"os": "linux", "arch": "riscv64"}, {"os": "windows", "arch": "x86_64"}])
def test_a_program_for_other_devices_than_the_bundle_s_is_refused(
    copy: Path, context: HostContext, device: dict[str, str]
) -> None:
    """Though it runs here, and its vectors are right."""
    bundle = of_processor(bundle_of(copy), "x86_64", 62)
    other = replace(bundle, manifest={**bundle.manifest, "target": {"platform": device}})
    with pytest.raises(BundleError, match=r"is for linux on x86_64, the bundle is for (riscv64|windows)"):
        BundleRunner(context=context, trusted=True).embed(other, ["a"])


def test_a_program_for_another_processor_cannot_run_here(copy: Path, context: HostContext) -> None:
    bundle = of_processor(bundle_of(copy), "riscv64", 243)
    with pytest.raises(CannotRunHere, match="riscv64"):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])


def for_arm64(copy: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    bundle = of_processor(bundle_of(copy), "aarch64", 183)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return bundle


def test_another_processor_s_program_is_emulated(
    copy: Path, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = for_arm64(copy, monkeypatch)
    vector = json.dumps({"embedding": [0.5] * bundle.manifest["model"]["dimension"]})
    qemu = tmp_path / "qemu-aarch64"
    qemu.write_text(
        f'#!/bin/sh\n[ "$2" = max ] && [ "$5" = "{bundle.program}" ] || exit 9\n'
        f"while read -r line; do echo '{vector}'; done\n"
    )
    qemu.chmod(0o755)
    emulator = Qemu(program=qemu, version="10.0", libc=tmp_path)
    monkeypatch.setattr(embed_program, "find_emulator", lambda arch, context: emulator)
    vectors = BundleRunner(context=context, trusted=True).embed(bundle, ["a", "b"])
    assert len(vectors) == 2 and set(vectors[0]) == {0.5}


def test_without_an_emulator_it_cannot_run_here(
    copy: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(arch: str, context: BuildContext) -> Qemu:
        raise MissingToolError("qemu-aarch64 is not installed")

    bundle = for_arm64(copy, monkeypatch)
    monkeypatch.setattr(embed_program, "find_emulator", none)
    with pytest.raises(
        CannotRunHere, match=r"for aarch64, this host is x86_64: qemu-aarch64 is not installed"
    ):
        BundleRunner(context=context, trusted=True).embed(bundle, ["a"])
