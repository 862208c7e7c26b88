"""What `edgepack diff` says of two bundles whose programs are small scripts."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.signed import key_in, list_files, write_small_bundle

from edgepack.bundles.archive import pack
from edgepack.bundles.golden import TEXTS
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.errors import BundleError, CannotRunHere, SignatureError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.word import HERE, MAKER
from edgepack.signing.signatures import sign_path
from edgepack.testing.script import HAS
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.tasks.wordnet import Task
from edgepack.verifier.trusted_bundles import remember
from edgepack_updates import compare
from edgepack_updates.compare import _READ, Drift, _said, changes, measure_drift
from edgepack_updates.difference import difference, opened
from edgepack_updates.show import as_json, render
from edgepack_updates.verdict import judge

PROGRAM = f"""#!{sys.executable} -S
import hashlib, json, sys
for line in sys.stdin:
    text = json.loads(line)["text"]
    seed = hashlib.sha512(text.encode()).digest() + hashlib.sha512(b"{{salt}}" + text.encode()).digest()
    print(json.dumps({{{{"embedding": [{{scale}} * (seed[i] - 128 + {{noise}} * (seed[-1 - i] - 128)) for i in range(8)]}}}}))
"""
SCORES = f"""#!{sys.executable} -S
import hashlib, json, sys
for line in sys.stdin:
    said = json.loads(line)
    numbers = [each / 255 for each in hashlib.sha512((said.get("query", "") + said["text"]).encode()).digest()]
    score = numbers[0] + {{noise}} * numbers[1]
    if "--pairs" in sys.argv:
        print(json.dumps({{{{"index": 0, "score": score}}}}))
    elif "--classify" in sys.argv:
        print(json.dumps({{{{"scores": {{{{"no": 0.5, "yes": score}}}}}}}}))
    else:
        print(json.dumps({{{{"embedding": [score, *numbers[2:9]]}}}}))
"""
"""A reranker's or a classifier's program."""
Make = Callable[..., Bundle]


@pytest.fixture
def made(tmp_path: Path, context: HostContext) -> Make:
    """``made(NAME, noise=…, here=…, model={…})``: a bundle whose vectors are so far from those without noise."""

    def make(
        where: str, /, *, noise: float = 0, scale: float = 1, salt: str = "", here: bool = True, **model: Any
    ) -> Bundle:
        program = SCORES if "task" in model else PROGRAM
        folder = write_small_bundle(
            tmp_path / where, program.format(noise=noise, scale=scale, salt=salt).encode()
        )
        vectors = [[1.0, noise, *[0.0] * 6]] * 2
        (folder / "golden.json").write_text(json.dumps({"texts": TEXTS[:2], "vectors": vectors}))
        manifest = json.loads(list_files(folder).joinpath("manifest.json").read_text())
        manifest["model"] |= model
        manifest["target"].setdefault("platform", {})["has"] = list(HAS)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        bundle = open_bundle(folder)
        if here:
            remember(digest(bundle), store=context.store)
        return bundle

    return make


pytestmark = pytest.mark.tools("python")


def verdict(old: Bundle, new: Bundle, context: HostContext, **asked: Any) -> Any:
    return difference(old, new, **{"run": False, "full": False, "prices": None, **asked}, context=context)


def test_the_same_vectors_mean_that_an_index_can_stay(made: Make, context: HostContext) -> None:
    one = {"embedder": "e" * 32}
    found = verdict(made("old", **one), made("new", noise=1e-5, recipe="another", **one), context)
    assert found.verdict.outcome == "same"
    assert found.verdict.says == "the same to 1e-4: an index can stay"
    assert found.drift.texts == len(verification_texts()) + 2
    assert found.drift.nearest_kept == found.drift.top10_kept == 1.0
    assert [(each.what, each.old, each.new) for each in found.changes] == [("recipe", "none", "another")]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "model", [{"task": "rank", "labels": ["score"]}, {"task": "classes", "labels": ["no", "yes"]}]
)
@pytest.mark.parametrize(
    ("noise", "outcome", "said"),
    [
        (0.0, "same", "the same scores to 1e-4: thresholds can stay"),
        (0.005, "mixed", "nearly the same order; check thresholds"),
        (2.0, "rebuild", "another order: scores' tau"),
    ],
)
def test_scores_of_rerankers_and_classifiers_are_compared(
    made: Make, context: HostContext, model: dict[str, Any], noise: float, outcome: str, said: str
) -> None:
    found = verdict(made("old", **model), made("new", noise=noise, **model), context)
    assert found.drift.scores.texts == (1000 if model["task"] == "rank" else 200)
    assert (found.verdict.outcome, said in found.verdict.says) == (outcome, True), found.verdict.says
    assert found.drift.nearest_kept is None and any(
        "Kendall's tau" in str(line) for line in render(found).renderables
    )


def test_models_of_other_tasks_and_labels_are_not_exchanged(made: Make, context: HostContext) -> None:
    classifier = {"task": "classes", "labels": ["no", "yes"]}
    embedder, one = made("embedder"), made("one", **classifier)
    other = made("other", **{**classifier, "labels": ["yes", "no"]})
    found = verdict(embedder, one, context)
    assert found.drift is None
    assert found.verdict.says == (
        "not to be exchanged: the new bundle is for another task (classifying, not embeddings)"
    )
    assert verdict(one, other, context).verdict.says == "not to be exchanged: the labels are others"


@pytest.mark.parametrize(("noise", "said"), [(0, "the same bits: one index serves both"), (1e-5, "1e-4")])
def test_the_same_bits_serve_one_index(made: Make, context: HostContext, noise: float, said: str) -> None:
    exact = {"embedder": "1", "vectors_sha256": "2"}
    found = verdict(made("old", **exact), made("new", noise=noise, **exact), context)
    assert found.verdict.outcome == "same" and said in found.verdict.says
    other = verdict(made("third", **exact), made("fourth", **{**exact, "vectors_sha256": "3"}), context)
    assert "bits" not in other.verdict.says
    # Ids and digests are what the new one's maker has written; longer texts were not compared.
    cut = verdict(
        made("whole", max_length=512, **exact), made("cut", max_length=400, **exact), context
    ).verdict
    assert cut.outcome == "undecided" and "cuts texts at 400 tokens" in cut.says


SOURCES = [[{"path": "model.safetensors", "size": 1, "sha256": each * 64}] for each in "12"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"embedder": "1", "source_files": SOURCES[0]}, {"embedder": "2", "source_files": SOURCES[1]}),
        ({"embedder": "", "recipe": "fp32"}, {"embedder": "", "recipe": "int8"}),
        ({"embedder": "1"}, {"embedder": "2", "vectors": "first token"}),
    ],
)
def test_other_weights_may_differ_in_words_that_the_built_in_texts_have_not(
    made: Make, context: HostContext, old: dict[str, Any], new: dict[str, Any]
) -> None:
    """A static model that was trained further on medical texts, or its int8: 212 texts have a twentieth of the tokens."""
    found = verdict(made("old", **old), made("new", **new), context).verdict
    assert found.outcome == "undecided" and "and other words were not compared" in found.says
    loss = verdict(made("before", **old), made("after", noise=0.02, **new), context).verdict
    assert loss.outcome == "mixed" and loss.says.endswith("and other words were not compared")


def test_a_strangers_word_on_what_it_is_made_of_lets_no_index_stay(made: Make, context: HostContext) -> None:
    old, new = (made(where, embedder="1", vectors_sha256="2") for where in ("old", "new"))
    found = measure_drift(old, new, run=False, full=False, context=context)
    assert judge(old.manifest, new.manifest, found, {}, said_by=(HERE, HERE)).outcome == "same"
    said = judge(old.manifest, new.manifest, found, {}, said_by=(HERE, MAKER))
    assert said.outcome == "undecided" and "is a maker's word" in said.says


@pytest.mark.parametrize("platform", [{"arch": "riscv64"}, {}])
def test_ids_that_differ_by_runtime_or_processor_alone_leave_it_to_the_texts(
    made: Make, context: HostContext, platform: dict[str, str]
) -> None:
    old, new = made("old", embedder="1").manifest, made("new", embedder="2").manifest
    new = {
        **new,
        "target": {**new["target"], "platform": {**new["target"]["platform"], **platform}},
        **({} if platform else {"runtime": {"version": "1.31.1", "kind": "stock"}}),
    }
    near = Drift(by="programs", texts=212, mean_cosine=1, min_cosine=1, largest_difference=0)
    differs = {each.what: each for each in changes(old, new)}
    assert judge(old, new, near, differs, said_by=(HERE, HERE)).outcome == "same"


def test_an_index_of_other_tokens_may_not_stay_by_everyday_texts() -> None:
    """Of words that the built-in texts have not a pruned vocabulary makes other vectors."""

    def manifest(recipe: str, sha256: str) -> dict[str, Any]:
        model = {"dimension": 8, "normalize": True, "recipe": recipe, "tokenizer": "t"}
        return {"model": model, "files": [{"path": "t", "sha256": sha256}]}

    near = Drift(by="programs", texts=212, mean_cosine=1, min_cosine=1, largest_difference=0)
    whole, pruned = manifest("int8", "1"), manifest("prune-vocabulary, int8", "2")
    for old, new in ((whole, pruned), (pruned, whole), (pruned, manifest("prune-vocabulary, int8", "3"))):
        said = judge(old, new, near, {}, said_by=())
        assert said.outcome == "undecided" and "one bundle has fewer tokens" in said.says
    assert judge(pruned, pruned, near, {}, said_by=()).outcome == "same"
    assert judge(whole, manifest("int8", "2"), near, {}, said_by=()).outcome == "same"


def test_texts_that_the_built_in_ones_do_not_stand_for(made: Make, context: HostContext) -> None:
    """Longer ones than one bundle takes, and those that two tokenizers split otherwise."""
    files = [{"path": "tokenizer.json", "sha256": each * 64, "size": 9} for each in "ab"]
    settings: list[dict[str, Any]] = [{"max_length": 512}, {"max_length": 4000}]
    settings += [
        {"max_length": 512, "source_files": [each], "embedder": str(number)}
        for number, each in enumerate(files)
    ]
    one, longer, split, otherwise = (
        made(f"{number}", noise=number * 1e-5, **each) for number, each in enumerate(settings)
    )
    for old, new, words in (
        (one, longer, "cuts texts at 512 tokens, and longer ones were not compared"),
        (split, otherwise, "split otherwise were not compared"),
    ):
        found = verdict(old, new, context).verdict
        assert found.outcome == "undecided" and words in found.says
    # Of one embedder: a tokenizer.json that was saved again.
    again = made("again", noise=1e-5, **{**settings[3], "embedder": "0"})
    assert verdict(split, again, context).verdict.outcome == "same"
    ranks = {"task": "rank", "labels": ["score"]}
    found = verdict(
        made("ranks", max_length=512, **ranks), made("longer", max_length=64, **ranks), context
    ).verdict
    assert (
        found.outcome == "undecided" and "scores that are the same to 1e-4, but one bundle cuts" in found.says
    )


SPARSE = {"of": "tokens", "size": 60, "skip": [0]}
TOKENS = {"dimension": 4, "first": 1, "query": {}, "document": {"length": 14}}


@pytest.mark.parametrize(
    "outputs",
    [{"dense": True, "sparse": SPARSE, "multi_vector": TOKENS}, {"dense": False, "multi_vector": TOKENS}],
)
@pytest.mark.parametrize("noise", [0, 1e-5, 0.02])
def test_outputs_beside_vectors_are_the_same_by_one_embedder_alone(
    made: Make, context: HostContext, outputs: dict[str, Any], noise: float
) -> None:
    """Vectors of the built-in texts say nothing of them."""
    said: dict[str, Any] = {"outputs": outputs, "embedder": "1", "vectors_sha256": "2"}
    old = made("old", **said)
    found = verdict(old, made("new", noise=noise, **{**said, "embedder": "3"}), context)
    theirs = judge(old.manifest, old.manifest, found.drift, {}, said_by=(HERE, MAKER))
    for each in (found.verdict, theirs):
        assert each.outcome == "undecided" and "vectors of tokens were not compared" in each.says
    if noise < 0.01:
        assert verdict(old, made("same", noise=noise, **said), context).verdict.outcome == "same"
    for where, other in (
        ("marker", {**outputs, "multi_vector": {**TOKENS, "query": {"marker": 5}}}),
        ("length", {**outputs, "multi_vector": {**TOKENS, "document": {"length": 9}}}),
        ("none", {"dense": True}),
    ):
        read = verdict(old, made(where, noise=noise, **{**said, "outputs": other}), context).verdict
        assert read.outcome == "rebuild" and "is read otherwise now" in read.says


def test_an_index_of_vectors_may_go_on_to_a_model_that_gives_more(made: Make, context: HostContext) -> None:
    old, new = made("old", embedder="1"), made("new", embedder="2", outputs={"dense": True, "sparse": SPARSE})
    found = verdict(old, new, context)
    assert found.verdict.outcome == "same"
    assert ("further outputs", "nothing", "sparse weights") in [
        (each.what, each.old, each.new) for each in found.changes
    ]
    assert verdict(new, old, context).verdict.outcome == "rebuild"


def test_another_module_changes_other_texts_than_the_built_in_ones(made: Make, context: HostContext) -> None:
    old, new = (made(where, embedder=where).manifest for where in ("1", "2"))
    found = [
        {
            **each,
            "runner": {**each["runner"], "module": "hooks.py"},
            "files": [*each["files"], {"path": "hooks.py", "sha256": sha * 64}],
        }
        for each, sha in ((old, "3"), (new, "4"))
    ]
    near = Drift(by="programs", texts=212, mean_cosine=1, min_cosine=1, largest_difference=0)
    for one, other in (found, (old, found[1])):
        differs = {each.what: each for each in changes(one, other)}
        assert "module" in differs
        said = judge(one, other, near, differs, said_by=())
        assert said.outcome == "undecided" and "the modules are other files" in said.says


def test_ids_that_differ_for_no_cause_that_is_shown_decide_nothing(made: Make, context: HostContext) -> None:
    old = made("old", embedder="1")
    found = verdict(old, made("new", noise=1e-5, embedder="2"), context).verdict
    assert found.outcome == "undecided" and "settings of the model are others" in found.says


def test_vectors_of_another_length_are_not_the_same(made: Make, context: HostContext) -> None:
    """A cosine says nothing of it, nor do vectors that were scaled to length 1; an inner product does."""
    exact = {"embedder": "1", "vectors_sha256": "2"}
    found = verdict(made("old", **exact), made("new", scale=2, **exact), context)
    assert (
        found.verdict.outcome == "rebuild"
        and "lengths of vectors change by up to 100.0%" in found.verdict.says
    )
    # A model that was trained further, too: its new documents are before, or behind, all others.
    trained = made("trained", scale=3, noise=0.02, recipe="another")
    said = verdict(made("before"), trained, context).verdict
    assert said.outcome == "rebuild" and "lengths of vectors change by up to 2" in said.says
    near = verdict(made("third", **exact), made("fourth", scale=1.001, **exact), context)
    assert near.verdict.says == "the same to 1e-4: an index can stay"


def test_a_mixed_index_is_measured(made: Make, context: HostContext) -> None:
    found = verdict(made("old"), made("new", noise=0.02, recipe="another"), context)
    assert found.verdict.outcome == "mixed"
    assert found.verdict.why == ("another recipe",)
    assert 0.9 <= found.drift.top10_kept < 1.0 and found.drift.min_cosine < 0.9999
    assert found.verdict.says == (
        f"the index can stay, with a loss: a new query finds {found.drift.top10_kept:.1%} of its ten nearest texts in it "
        f"(cosine {found.drift.mean_cosine:.4f}, lowest {found.drift.min_cosine:.4f})"
    )
    shorter = made("shorter", noise=0.02, max_length=256)
    said = verdict(made("longer", max_length=512), shorter, context).verdict
    assert said.outcome == "mixed"
    assert said.says.endswith("; one bundle cuts texts at 256 tokens, and longer ones were not compared")


def test_other_vectors_mean_rebuilding_and_why(made: Make, context: HostContext) -> None:
    weights = [{"path": "model.safetensors", "size": 1, "sha256": "1" * 64}]
    found = verdict(made("old"), made("new", noise=1, name="other", source_files=weights), context)
    assert found.verdict.outcome == "rebuild"
    assert found.verdict.says.startswith("rebuild the index: a new query finds ")
    assert found.verdict.why == ("another model", "another weights")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"dimension": 16}, "vectors have 16 dimensions, not 8"),
        ({"normalize": False}, "vectors are no longer scaled to length 1"),
        ({"prefixes": {"query": "the ", "passage": "text: "}}, "before passages goes 'text: ' now, not ''"),
    ],
)
def test_what_cannot_be_in_one_index_is_said(made: Make, context: HostContext, model: Any, said: str) -> None:
    found = verdict(made("old"), made("new", **model), context)
    assert (found.verdict.outcome, found.verdict.why) == ("rebuild", (said,))
    assert found.verdict.says == f"rebuild the index: {said}"
    assert (found.drift is None) == ("dimension" in model)


def test_a_strangers_program_is_not_run_unasked(
    made: Make, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The scripts' own interpreter is not visible in one.
    monkeypatch.setattr("edgepack.verifier.run.find_sandbox", lambda: None)
    old, new = made("old"), made("new", noise=0.5, here=False)
    found = verdict(old, new, context)
    assert (found.drift.by, found.drift.texts) == ("golden", 2)
    assert "--run runs its program" in found.drift.reason
    assert found.verdict.outcome == "undecided" and "2 golden texts alone" in found.verdict.says
    assert verdict(old, new, context, run=True).drift.by == "programs"


@pytest.mark.parametrize("model", [{}, {"task": "classes", "labels": ["no", "yes"]}])
def test_a_strangers_program_that_knows_the_texts_by_heart_is_found(
    made: Make, context: HostContext, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any]
) -> None:
    """It answered as the old one for the published texts and its own golden ones, and an index could stay."""
    monkeypatch.setattr("edgepack.verifier.run.find_sandbox", lambda: None)
    old, new = made("old", **model), made("new", noise=1e-9, here=False, **model)
    begins, loop = "import hashlib, json, sys\n", "for line in sys.stdin:\n"
    lie = '{"embedding": [1] * 8, "scores": {"no": 0.5, "yes": len(line) % 7 / 7}}'
    unknown = (
        f"    if json.loads(line)['text'] not in known:\n        print(json.dumps({lie}))\n        continue\n"
    )
    known = f"known = {{*{[*verification_texts(), *TEXTS]!r}}}\n"
    program = new.program.read_text()
    new.program.write_text(program.replace(begins, begins + known).replace(loop, loop + unknown))
    found = measure_drift(old, new, run=True, full=False, context=context)
    said = judge(old.manifest, new.manifest, found, {}, said_by=[MAKER, MAKER])
    assert found.by == "programs" and said.outcome == "rebuild", said.says


def test_golden_vectors_that_cannot_be_compared_are_said(made: Make, context: HostContext) -> None:
    old = made("old", here=False)
    for document, said in (
        ({"texts": ["a"], "vectors": [[1.0]]}, "are not of 8 numbers"),
        ({"texts": ["a"], "vectors": [[1.0], [2.0, 3.0]]}, "cannot be read"),
        ({"texts": ["a"], "vectors": [[10**400] * 8]}, "the golden vectors"),
        ({"texts": ["another"], "vectors": [[1.0] * 8]}, "no golden text in common"),
    ):
        new = made(said, here=False)
        (new.directory / "golden.json").write_text(json.dumps(document))
        with pytest.raises(BundleError, match=said) as refused:
            verdict(old, new, context)
        assert refused.value.hint


def test_equal_ids_of_ones_own_are_enough_where_nothing_can_be_run(
    made: Make, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*asked: object) -> None:
        raise CannotRunHere("another processor's")

    monkeypatch.setattr(compare, "_embed", cannot)
    old = made("old", embedder="e" * 32)
    for noise, embedder, outcome in (
        (0, "e" * 32, "same"),
        (0, "f" * 32, "undecided"),
        (1, "e" * 32, "undecided"),
    ):
        new = made(f"new-{noise}-{embedder[0]}", noise=noise, embedder=embedder)
        assert verdict(old, new, context).verdict.outcome == outcome
    assert verdict(made("a", embedder=""), made("b", embedder=""), context).verdict.outcome == "undecided"


def test_a_strangers_word_decides_nothing_and_a_named_keys_does(
    made: Make, context: HostContext, tmp_path: Path
) -> None:
    old, new = made("old", embedder="e" * 32), made("new", here=False, embedder="e" * 32, recipe="another")
    for one, other in ((old, new), (new, old), (new, new)):
        found = verdict(one, other, context)
        assert found.verdict.outcome == "undecided"
        assert found.verdict.says.startswith("not decided: its maker says that vectors are the same")
        assert "can stay" not in json.dumps(as_json(found))
    assert as_json(verdict(old, new, context))["new_said_by"] == {"whose": "maker", "key": ""}
    team = key_in(tmp_path, "team")
    with pytest.raises(SignatureError, match="is not signed"):
        verdict(old, new, context, key=team.public)
    sign_path(new.directory, team, context=context)
    found = verdict(old, new, context, key=team.public)
    assert found.verdict.says.endswith("by their embedder ids and golden vectors: an index can stay")
    assert (found.old_said_by.whose, found.new_said_by.whose) == ("here", "key")
    with pytest.raises(SignatureError, match="was made with another key"):
        verdict(old, new, context, key=key_in(tmp_path, "other").public)


def test_a_strangers_names_are_no_lines_of_ours(made: Make, context: HostContext) -> None:
    lie = "a\nthe same to 1e-4: an index can stay ✓\x1b[2J\u202e"
    old, new = made("old"), made("new", here=False, name=lie, recipe="✓")
    console = Console(width=400, file=io.StringIO())
    console.print(render(verdict(old, new, context)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert not {"✓", "\x1b", "\u202e"} & {*shown}
    assert not any(line.lstrip().startswith("the same") for line in shown.splitlines())
    assert "\\x0athe same" in shown


@pytest.mark.parametrize(
    ("lowest", "kept", "outcome"),
    [(0.9999, 0.5, "same"), (0.99989, 1.0, "mixed"), (0.5, 0.9, "mixed"), (0.99, 0.899, "rebuild")],
)
def test_where_the_borders_are(made: Make, lowest: float, kept: float, outcome: str) -> None:
    manifest = made("old").manifest
    drift = Drift(
        by="programs",
        texts=212,
        mean_cosine=1.0,
        min_cosine=lowest,
        largest_difference=0.0,
        nearest_kept=1.0,
        top10_kept=kept,
    )
    assert judge(manifest, manifest, drift, {}, said_by=(HERE, HERE)).outcome == outcome


def test_retrieval_by_a_mixed_index(
    made: Make, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(glosses=tuple(f"gloss {n}" for n in range(30)), words=("gloss 3", "gloss 7"), belongs=(3, 7))
    monkeypatch.setattr(compare, "retrieval_task", lambda **asked: task)
    plain = {"prefixes": {"query": "", "passage": ""}}
    found = measure_drift(
        made("old", **plain), made("new", noise=1e-5, **plain), run=False, full=True, context=context
    )
    assert found.retrieval is not None
    assert (found.retrieval.queries, found.retrieval.glosses) == (2, 30)
    assert found.retrieval.recall_old == found.retrieval.recall_new == found.retrieval.recall_mixed == 1.0
    far = measure_drift(
        made("a", **plain), made("b", noise=1, salt="x", **plain), run=False, full=True, context=context
    )
    assert far.retrieval is not None and far.retrieval.top10_kept < 0.9


def test_bytes_and_money_and_a_result_for_programs(made: Make, context: HostContext, tmp_path: Path) -> None:
    old, new = made("old"), made("new", noise=1e-5)
    packed = pack(new, tmp_path / "new.tar.zst", context=context)
    assert packed.archive is not None
    found = verdict(old, opened(packed.archive, "new", context=context), context)
    parts = {part.name: part for part in found.parts}
    assert parts["model"].before == parts["model"].after > parts["model"].update == 0
    assert 0 < parts["runner"].update < parts["runner"].after
    assert sum(part.after for part in found.parts) == sum(
        path.lstat().st_size for path in new.directory.rglob("*") if path.is_symlink() or path.is_file()
    )
    assert found.archive_after == packed.archive.stat().st_size
    assert {cost.devices for cost in found.costs_update} == {cost.devices for cost in found.costs_whole}
    said = json.loads(json.dumps(as_json(found)))
    assert said["schema"] == 1 and said["verdict"]["outcome"] == "same" and said["update"] == found.update
    assert render(replace(found, costs_whole=(), costs_update=(), changes=())).renderables


@pytest.mark.parametrize(
    ("row", "section", "said"),
    [
        ("processor", "target", {"platform": {"arch": "x86_64"}}),
        ("recipe", "model", {"recipe": "int8"}),
        ("tokens of a text", "model", {"max_length": 256}),
        ("program", "runner", {"kind": "native"}),
    ],
)
def test_what_a_strangers_manifest_leaves_out_is_nothing(
    row: str, section: str, said: dict[str, object]
) -> None:
    assert _said(_READ[row]({section: {}})) == "nothing"
    assert _said(_READ[row]({section: said})) != "nothing"
