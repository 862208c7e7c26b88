"""What programs of bundles answer, and say when they fail: changed at random, and read as verification reads it."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.needs import what_it_needs
from edgepack.verifier.confined.program import Ended
from edgepack.verifier.confined.sandbox import View
from edgepack.verifier.run import BundleRunner, said_by_program
from tests.fuzz.readers import mutated
from tests.fuzz.rounds import Campaign, for_seconds

SEEDS: Mapping[str, bytes] = {
    "vectors": b'{"embedding": [0.5, -1e-3]}\n{"text": "a", "embedding": [1, 0]}\n',
    "tokens": b"[101, 102]\n[101, 7, 102]\n",
    "scores": b'{"score": 0.5}\n{"score": -7}\n',
    "pair_tokens": b"[[1, 2], [0, 1]]\n[[1], [0]]\n",
    "outputs": b'{"sparse": {"indices": [1, 2], "values": [0.5, 1]}, "multi_vector": [[1, 0], [0.5, 2]]}\n'
    b'{"sparse": {"indices": [], "values": []}, "multi_vector": []}\n',
    "messages": b"error: model.bin is damaged\nhint: build it\n/usr/lib/a: libm.so.6: cannot open shared object file: No such\n",
}
WORDS = (b"1" + b"0" * 400, b"[" * 2_000, b": cannot open shared object file", b"/a" * 200, b".so", b"NaN")


@dataclass(frozen=True, kw_only=True)
class _Answered(BundleRunner):
    """Runs nothing: its program has answered already."""

    said: str

    def _answers(self, bundle: Bundle, command: Sequence[str | Path], texts: Sequence[Any]) -> str:
        return self.said


def answered(said: str) -> BundleRunner:
    """A runner of a bundle whose program says that, whatever it is asked."""
    return _Answered(context=cast(BuildContext, None), said=said)


def bundle_with(**model: Any) -> Bundle:
    """A bundle of two dimensions, whose files are nowhere."""
    runner = {"program": "embed", "command": ["embed"], "kind": "native"}
    manifest = {
        "name": "b",
        "model": {"dimension": 2, **model},
        "runner": runner,
        "files": [{"path": "embed"}],
    }
    return Bundle(directory=Path("/nowhere/bundle"), manifest=manifest)


def read(kind: str, said: str) -> None:
    """Have verification read it. Raises ``EdgepackError``, and nothing else."""
    runner, texts, pairs = answered(said), ["a", "b"], [("a", "b"), ("c", "d")]
    if kind == "messages":
        said_by_program(said)
        what_it_needs(Ended(output="", messages=said, code=1), bundle_with(), View())
    elif kind == "scores":
        runner.scores(bundle_with(task="rank"), texts)
    elif kind == "pair_tokens":
        runner.pair_tokens(bundle_with(), pairs)
    elif kind == "outputs":
        runner.outputs(bundle_with(outputs={"sparse": {}, "multi_vector": {}}), texts, query=False)
    else:
        getattr(runner, kind)(bundle_with(), texts)


def fuzz(kind: str, *, rounds: Iterable[object], seed: int) -> int:
    """How many answers were read; what is no error for people is raised, with the answer."""
    chance, tried = random.Random(seed), 0
    for _ in rounds:
        content = mutated(SEEDS[kind], chance)
        if chance.random() < 0.2:
            at = chance.randrange(len(content) + 1)
            content = content[:at] + chance.choice(WORDS) + content[at:]
        try:
            read(kind, content.decode(errors="replace"))
        except EdgepackError:
            pass
        except Exception as error:
            raise AssertionError(f"{kind}: {content!r}") from error
        tried += 1
    return tried


def campaigns(folder: Path) -> Iterator[Campaign]:
    for kind in SEEDS:

        def run(seconds: float, seed: int, kind: str = kind) -> int:
            return fuzz(kind, rounds=for_seconds(seconds), seed=seed)

        yield kind, run
