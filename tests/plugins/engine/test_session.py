"""The session in C++ with plans of every step: what NumPy makes of them in 64 bits, whatever the batch and the threads."""

import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz.plans import LONGEST, sound_plans, with_pooling
from tests.support import engine_session as session
from tests.support.berts import Tokens
from tests.support.engine_plan import given_of, parts_of, vectors_of
from tests.support.once import made_once

from edgepack_engine.plan import Buffer, Operation, Plan, Pooled, Rows, Step, write_plan

pytestmark = [
    pytest.mark.tools("python"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64"),
]
LENGTHS = (17, 1, 130, 96, 97, 3)


def compile_all(folder: Path) -> None:
    session.compile_session(folder / "session.so")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A mutant, of test_mutants.py.
    if given := os.environ.get(session.LIBRARY):
        return Path(given)
    return made_once(tmp_path_factory, "engine-session", compile_all) / "session.so"


def texts(*lengths: int, seed: int = 1) -> Tokens:
    """Texts of these lengths, with tokens and types that the plans have rows of. Token 1 is padding that stands anywhere."""
    chance = np.random.default_rng(seed)
    mask = (np.arange(max(lengths))[None] < np.array(lengths)[:, None]).astype(np.int64)
    return Tokens(
        ids=chance.integers(0, 30, mask.shape) * mask, mask=mask, types=chance.integers(0, 2, mask.shape)
    )


def without_clamped_rows(plan: Plan) -> Plan:
    """As many rows of positions as texts have."""
    steps = []
    for step in plan.steps:
        if step.operation == Operation.LOOKUP and step.inputs[0] in (Rows.POSITIONS, Rows.COUNTED):
            table = np.random.default_rng(5).normal(size=(LONGEST + 2, step.sizes[0])).astype("<f4")
            step = replace(step, sizes=(step.sizes[0], len(table), 1, 1), tensors=[table, None])
        steps.append(step)
    return replace(plan, steps=tuple(steps))


NAMES = ("encoder", "decoder", "other", "behind")
POOLED = (
    *((Pooled.MEAN, True), (Pooled.MEAN, False), (Pooled.FIRST, True), (Pooled.FIRST, False)),
    *((Pooled.LAST, True), (Pooled.LARGEST, False), (Pooled.ROOT, False), (Pooled.RISING, False)),
)


def hidden_of(plan: Plan) -> Buffer:
    """What is pooled."""
    (hidden,) = plan.pooled[0].inputs
    assert isinstance(hidden, Buffer)
    return hidden


def plans() -> list[Any]:
    """Each with one pooling."""
    return [
        pytest.param(without_clamped_rows(plan), id=name)
        for plan, name in zip(sound_plans(), NAMES, strict=True)
    ]


def pooled_plans() -> list[Any]:
    """Each with each pooling."""
    return [
        pytest.param(
            with_pooling(without_clamped_rows(plan).steps, hidden_of(plan), mode, unit=unit),
            id=f"{name}, {mode.name}{', unit' if unit else ''}",
        )
        for plan, name in zip(sound_plans()[:3], NAMES, strict=False)
        for mode, unit in POOLED
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan"


@pytest.mark.parametrize("plan", [*pooled_plans(), plans()[-1]])
def test_vectors_are_those_of_the_plan(library: Path, file: Path, plan: Plan) -> None:
    tokens = texts(*LENGTHS)
    write_plan(plan, file)
    made = session.session_vectors(library, file, tokens, dimension=plan.dimension)
    wanted = vectors_of(plan, tokens.ids, tokens.mask, tokens.types)
    # What float32 rounds otherwise may move a byte of a quantized value by one.
    assert np.abs(made - wanted).max() <= 2e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("plan", plans())
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_that_share_texts_change_no_bit(library: Path, file: Path, plan: Plan, threads: int) -> None:
    write_plan(plan, file)
    for lengths in ((130,), (128,), (129, 127), (63,), LENGTHS, (130,) * 9):
        one, several = (
            session.session_vectors(
                library, file, texts(*lengths), dimension=plan.dimension, threads=count, times=3
            )
            for count in (1, threads)
        )
        assert np.array_equal(one, several)


@pytest.mark.parametrize("plan", plans())
def test_neighbours_change_no_bit(library: Path, file: Path, plan: Plan) -> None:
    write_plan(plan, file)
    tokens = texts(*LENGTHS)
    together = session.session_vectors(library, file, tokens, dimension=plan.dimension, times=3)
    for row in range(len(LENGTHS)):
        one = Tokens(**{name: getattr(tokens, name)[row : row + 1] for name in ("ids", "mask", "types")})
        alone = session.session_vectors(library, file, one, dimension=plan.dimension)
        assert np.array_equal(alone[0], together[row])


@pytest.mark.parametrize("plan", [*pooled_plans()[:2], pooled_plans()[5], plans()[-1]])
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_of_a_text_are_pooled_of_their_own_tokens(
    library: Path, file: Path, plan: Plan, threads: int
) -> None:
    write_plan(plan, file)
    (ids,), (types,) = texts(130).ids, texts(130).types
    how: dict[str, Any] = {"dimension": plan.dimension, "threads": threads}
    ends = np.array([1, 40, 97, 130])
    made = session.session_parts(library, file, ids, types, ends, **how)
    wanted = parts_of(plan, ids, types, ends)
    assert np.abs(made - wanted).max() <= 2e-3 * np.abs(wanted).max()
    (whole,) = session.session_parts(library, file, ids, types, np.array([130]), **how)
    assert np.array_equal(whole, session.session_vectors(library, file, texts(130), **how)[0])


def test_tokens_and_positions_beyond_a_table_are_its_last_row(library: Path, file: Path) -> None:
    plan = sound_plans()[1]
    write_plan(plan, file)
    tokens = texts(60)
    made = session.session_vectors(library, file, tokens, dimension=plan.vector.width)
    rows = next(step for step in plan.steps if step.operation == Operation.LOOKUP).tensors[0]
    assert rows is not None
    assert len(rows) < 60
    longer = np.concatenate([rows, np.repeat(rows[-1:], 60, axis=0)])
    steps = [
        replace(step, tensors=[longer, None], sizes=(step.sizes[0], len(longer), 0, 1))
        if step.operation == Operation.LOOKUP
        else step
        for step in plan.steps
    ]
    wanted = vectors_of(replace(plan, steps=tuple(steps)), tokens.ids, tokens.mask, tokens.types)
    np.testing.assert_allclose(made, wanted, atol=2e-3 * np.abs(wanted).max())


@pytest.mark.parametrize(("type", "width"), [("<f4", 1040), ("<f4", 3072), ("<i1", 4112)])
def test_rows_of_words_are_read_in_pieces(library: Path, file: Path, type: str, width: int) -> None:
    """Of 4,096 bytes each, and of what is left."""
    table = np.random.default_rng(1).integers(-127, 128, (30, width)).astype(type)
    output = Buffer(width=width)
    scales = np.linspace(0.01, 1, 30).astype("<f4") if type == "<i1" else None
    step = Step(
        operation=Operation.LOOKUP,
        inputs=(int(Rows.TOKENS),),
        outputs=[output],
        sizes=(width, 30, 0, 0),
        tensors=[table, scales],
    )
    plan = with_pooling((step,), output, Pooled.MEAN, unit=False)
    write_plan(plan, file)
    tokens = texts(5, 100)
    made = session.session_vectors(library, file, tokens, dimension=width)
    wanted = vectors_of(plan, tokens.ids, tokens.mask, tokens.types)
    np.testing.assert_allclose(made, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.slow
def test_a_disk_that_gives_no_row_of_a_word_is_an_error(
    tmp_path: Path, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = session.session_sources()["session.cc"]
    assert source.count("pread(file_,") == 1
    failing = {"session.cc": source.replace("pread(file_,", "pread(-1,")}
    library = session.compile_session(tmp_path / "failing.so", failing, flags=("-O0",))
    plan = sound_plans()[0]
    write_plan(plan, file)
    with pytest.raises(ValueError, match="5"):
        session.session_vectors(library, file, texts(4, 9), dimension=plan.vector.width, threads=2)
    assert "cannot be read any more" in capfd.readouterr().err


def test_texts_without_tokens_are_zeros(library: Path, file: Path) -> None:
    plan = sound_plans()[0]
    write_plan(plan, file)
    tokens = texts(4, 4)
    tokens.mask[0] = 0
    made = session.session_vectors(library, file, tokens, dimension=plan.vector.width, threads=2)
    assert not made[0].any()
    assert made[1].any()
    tokens.mask[1] = 0
    assert not session.session_vectors(library, file, tokens, dimension=plan.vector.width, threads=2).any()


def test_vectors_of_zeros_stay_zeros(library: Path, file: Path) -> None:
    plan = sound_plans()[1]
    *before, norm = plan.steps
    norm = replace(norm, tensors=[None, np.zeros(plan.vector.width, "<f4"), None, None])
    write_plan(with_pooling((*before, norm), hidden_of(plan), Pooled.LAST, unit=True), file)
    made = session.session_vectors(library, file, texts(3, 7), dimension=plan.vector.width)
    assert not made.any()


def test_texts_that_are_too_long_are_refused(library: Path, file: Path) -> None:
    plan = sound_plans()[0]
    write_plan(plan, file)
    with pytest.raises(ValueError, match="5"):
        session.session_vectors(library, file, texts(LONGEST + 1), dimension=plan.vector.width)
    with pytest.raises(ValueError, match="5"):
        session.session_vectors(library, file, texts(4), dimension=plan.vector.width + 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_tokens_have_is_given_for_those_too_that_others_do_not_attend_to(
    library: Path, file: Path, threads: int
) -> None:
    plan = plans()[-1].values[0]
    write_plan(plan, file)
    tokens, seen = texts(*LENGTHS), (9, 1, 100, 96, 3, 2)
    sizes = tokens.mask.sum(axis=1)
    tokens.mask[:] = np.arange(tokens.mask.shape[1])[None] < np.array(seen)[:, None]
    made, given = session.session_tokens(
        library, file, tokens, sizes, dimension=plan.dimension, width=plan.given, threads=threads
    )
    for row, size in enumerate(sizes):
        ids, mask, types = (each[row, :size] for each in (tokens.ids, tokens.mask, tokens.types))
        wanted = given_of(plan, ids, mask, types)
        assert np.abs(given[row, :size] - wanted).max() <= 1e-2 * np.abs(wanted).max()
        assert not given[row, size:].any()
        (vector,) = vectors_of(plan, ids[None, mask == 1], mask[None, mask == 1], types[None, mask == 1])
        assert np.abs(made[row] - vector).max() <= 1e-2 * np.abs(vector).max()


def test_tokens_of_another_width_are_refused(library: Path, file: Path) -> None:
    plan = plans()[-1].values[0]
    write_plan(plan, file)
    with pytest.raises(ValueError, match="5"):
        session.session_tokens(
            library, file, texts(3), np.array([3]), dimension=plan.dimension, width=plan.given + 1
        )


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_row_of_which_a_part_is_never_written_is_not_read(library: Path, file: Path, left_out: int) -> None:
    """What lay in the memory before would be in the vectors."""
    plan = plans()[-1].values[0]
    parts = [at for at, step in enumerate(plan.steps) if is_part(step)]
    gone = parts[left_out]
    write_plan(replace(plan, steps=(*plan.steps[:gone], *plan.steps[gone + 1 :])), file)
    with pytest.raises(ValueError, match="4"):
        session.session_vectors(library, file, texts(3), dimension=plan.dimension)


def is_part(step: Step) -> bool:
    """Whether a product writes some numbers of a row."""
    made = step.outputs[0] if step.operation is Operation.PRODUCT else None
    return made is not None and made.width != step.sizes[1]
