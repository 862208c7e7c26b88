"""The stand-in for libstdc++: only where it is enough, and then it is."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.files.elf import glibc_floor, needed_libraries, version_key
from edgepack.plugins.context import HostContext
from edgepack.runner.freeze import cxx_runtime as subject

pytestmark = [
    pytest.mark.tools("gcc", "python"),
    pytest.mark.skipif(subject.installed_compiler() is None, reason="needs a C compiler"),
]


@pytest.fixture
def internal(tmp_path: Path) -> Path:
    """tokenizers' module beside a file in libstdc++'s place."""
    import tokenizers

    folder = tmp_path / "internal"
    (folder / "tokenizers").mkdir(parents=True)
    compiled = next(Path(tokenizers.__file__).parent.glob("tokenizers*.so"))
    shutil.copy(compiled, folder / "tokenizers")
    (folder / subject.LIBRARY).write_bytes(b"the real one")
    return folder


def test_tokenizers_works_on_the_stand_in(internal: Path, context: HostContext, tmp_path: Path) -> None:
    subject.replace_cxx_runtime(internal, work=tmp_path, context=context)
    assert not (internal / subject.LIBRARY).exists()
    (internal / "tokenizers/__init__.py").write_text("from .tokenizers import Tokenizer, models\n")
    script = (
        "from tokenizers import Tokenizer, models\n"
        "tokenizer = Tokenizer(models.WordLevel({'cat': 7, '?': 0}, unk_token='?'))\n"
        "print(tokenizer.encode('cat').ids, 'libstdc++' in open('/proc/self/maps').read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": str(internal), "LD_LIBRARY_PATH": str(internal)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stdout == "[7] False\n", done.stderr


def test_the_stand_in_asks_for_little(internal: Path, context: HostContext, tmp_path: Path) -> None:
    subject.replace_cxx_runtime(internal, work=tmp_path, context=context)
    stand_in = internal / subject.STAND_IN
    assert needed_libraries(stand_in) == ("libc.so.6",)
    assert version_key(glibc_floor(stand_in) or "") <= (2, 17)
    allocate = ctypes.CDLL(str(stand_in))._Znwm
    allocate.restype = ctypes.c_void_p
    assert allocate(ctypes.c_size_t(0))


def test_one_who_asks_for_more_keeps_the_real_one(
    internal: Path, context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {**subject.VERSIONS, "CXXABI_1.3": "__cxa_throw"}
    monkeypatch.setattr(subject, "VERSIONS", versions)
    subject.replace_cxx_runtime(internal, work=tmp_path, context=context)
    assert (internal / subject.LIBRARY).exists()
    assert not (internal / subject.STAND_IN).exists()


def test_without_a_compiler_the_real_one_stays(
    internal: Path, context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "installed_compiler", lambda: None)
    subject.replace_cxx_runtime(internal, work=tmp_path, context=context)
    assert (internal / subject.LIBRARY).read_bytes() == b"the real one"
