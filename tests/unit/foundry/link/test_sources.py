"""Objects of a program's sources: shared between programs as far as their text is."""

from pathlib import Path

import pytest

from edgepack.foundry.compile.objects import CompileJob
from edgepack.foundry.link.sources import RuntimeHeaders, closure, source_jobs
from edgepack.foundry.units import ProgramSources
from edgepack.runner.native.sources import ort_encoder, program_sources

FILES = {
    "base/error.h": "// an error",
    "base/text.h": '#include "base/error.h"\n',
    "program/main.cc": '#include <vector>\n  #  include "base/text.h"\n',
    "program/numbers.cc": "int numbers;",
    "third_party/http/api.c": '#include "http.h"\n',
    "third_party/http/http.h": "#include <stddef.h>",
}


@pytest.mark.parametrize(
    ("name", "included"),
    [
        ("program/main.cc", ["base/error.h", "base/text.h", "program/main.cc"]),
        ("program/numbers.cc", ["program/numbers.cc"]),
        ("third_party/http/api.c", ["third_party/http/api.c", "third_party/http/http.h"]),
    ],
)
def test_a_source_is_read_with_what_it_includes(name: str, included: list[str]) -> None:
    assert list(closure(name, FILES)) == included


def test_an_include_that_is_a_macro_may_be_any_file() -> None:
    files = {**FILES, "program/numbers.cc": "#include TABLE\n"}
    assert closure("program/numbers.cc", files) == dict(sorted(files.items()))


@pytest.mark.parametrize(
    "hidden",
    [
        '/* a comment */ #include "base/text.h"',
        '#include_next "base/text.h"',
        '# /* a comment */ include "base/text.h"',
        '#in\\\nclude "base/text.h"',
        '%:include "base/text.h"',
        '#if __has_include("base/text.h")',
        '#embed "base/text.h"',
    ],
)
def test_an_include_that_is_hidden_is_no_old_object(hidden: str) -> None:
    files = {**FILES, "program/numbers.cc": hidden + "\nint numbers;\n"}
    assert "base/text.h" in closure("program/numbers.cc", files)


def test_headers_of_others_are_taken_as_a_whole() -> None:
    others = {"include/ov/ov.hpp": "#include OV_CONFIG\n", "include/ov/config.hpp": ""}
    files = {**FILES, **others, "program/numbers.cc": "#include <ov/ov.hpp>\n"}
    assert set(closure("program/numbers.cc", files)) == {"program/numbers.cc", *others}


def jobs(
    room: Path,
    files: dict[str, str],
    *flags: str,
    compiler: str = "one",
    headers: RuntimeHeaders | None = None,
) -> dict[str, CompileJob]:
    found = source_jobs(
        ProgramSources(files=files, output="embed"),
        room,
        command=lambda language: ["compile", language],
        flags=lambda name: flags,
        headers=headers,
        identity=compiler,
    )
    return {job.name: job for job in found}


@pytest.mark.parametrize(
    ("changed", "compiled"),
    [
        ({"base/error.h": "// another"}, {"program/main.cc"}),
        ({"program/numbers.cc": "long numbers;"}, {"program/numbers.cc"}),
        ({"third_party/http/http.h": ""}, {"third_party/http/api.c"}),
        ({"base/unused.h": "// new"}, set()),
        ({"program/serve.cc": "int serve;"}, {"program/serve.cc"}),
    ],
)
def test_only_what_reads_a_changed_file_is_compiled_again(
    changed: dict[str, str], compiled: set[str], tmp_path: Path
) -> None:
    before = jobs(tmp_path, FILES)
    after = jobs(tmp_path, FILES | changed)
    assert {name for name, job in after.items() if before.get(name, job).identity != job.identity} | (
        after.keys() - before.keys()
    ) == compiled
    for name in before.keys() - compiled:
        assert after[name].object == before[name].object


def test_flags_and_compilers_have_objects_of_their_own(tmp_path: Path) -> None:
    objects = [
        jobs(tmp_path, FILES)["program/main.cc"].object,
        jobs(tmp_path, FILES, "-O2")["program/main.cc"].object,
        jobs(tmp_path, FILES, compiler="another")["program/main.cc"].object,
    ]
    assert len(set(objects)) == 3


def test_a_program_that_serves_shares_the_objects_of_one_that_does_not(tmp_path: Path) -> None:
    plain = jobs(tmp_path, program_sources(ort_encoder("linked")))
    serving = jobs(tmp_path, program_sources(ort_encoder("linked"), ("serve",)))
    other = {name for name, job in plain.items() if serving[name].object != job.object}
    assert not [name for name in other if name.startswith(("base/", "tokenizer/", "embedder/", "encoder/"))]
    assert len(other) < len(plain) / 3


def test_only_what_reads_headers_of_a_runtime_has_objects_for_that_runtime(tmp_path: Path) -> None:
    folder = tmp_path / "runtime/core/session"
    folder.mkdir(parents=True)
    for each in ("onnxruntime_c_api.h", "onnxruntime_session_options_config_keys.h"):
        (folder / each).write_text("")
    files = program_sources(ort_encoder("linked"), ("serve",))
    alone = jobs(tmp_path, files)
    found = [
        jobs(tmp_path, files, headers=RuntimeHeaders(folders=(tmp_path / "runtime",), identity=key))
        for key in ("one", "another")
    ]
    own = {name for name, job in found[0].items() if job.object != found[1][name].object}
    assert own and all(name.startswith("encoder/ort_") for name in own)
    for name, job in found[0].items():
        assert (job.object == alone[name].object) == (name not in own)
        assert (f"-isystem{tmp_path / 'runtime'}" in job.command) == (name in own)


def test_a_source_whose_includes_are_not_known_may_read_any_header(tmp_path: Path) -> None:
    files = {**FILES, "program/numbers.cc": "#include TABLE\n"}
    headers = RuntimeHeaders(folders=(tmp_path,), identity="one")
    plain, theirs = jobs(tmp_path, files), jobs(tmp_path, files, headers=headers)
    assert {name for name, job in theirs.items() if job.object != plain[name].object} == {
        "program/numbers.cc"
    }


def test_what_was_laid_and_altered_is_laid_again(tmp_path: Path) -> None:
    source = Path(jobs(tmp_path, FILES)["program/main.cc"].command[-1])
    source.write_text("int altered;")
    jobs(tmp_path, FILES)
    assert source.read_text() == FILES["program/main.cc"]
