"""Pruning: texts of the corpus keep their vectors to the bit, other texts are still cut into pieces."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from tests.support.berts import write_bert
from tokenizers import Tokenizer

from edgepack.errors import ModelError, OutputError, UsageError
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
from edgepack.passes.prune_vocabulary import in_texts, kept_tokens, prune_vocabulary, pruned_tokenizer
from edgepack.plugins.context import HostContext
from edgepack.recipes import prepare, word_lists
from edgepack.recipes.prepare import prepare_model
from edgepack.recipes.registry import apply
from edgepack.records.model import ModelSource
from edgepack.records.outputs import MultiVector, Outputs, Side, Sparse
from edgepack.records.recipe import Material
from edgepack.records.target import ModelOptions, Pass

CORPUS = ("hello world", "a small model", "models hello a")


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    """A model whose tokenizer knows many words that the corpus never uses."""
    made = write_bert(tmp_path / "model", vocab_size=200)[0]
    document = json.loads(made.tokenizer.read_text())
    vocabulary = document["model"]["vocab"]
    for word in ("unused", "never", "##less", "##ed", "x", "##x", "q", "##q", "hel", "##lo"):
        vocabulary[word] = len(vocabulary)
    made.tokenizer.write_text(json.dumps(document))
    return replace(made, files=())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(CORPUS) + "\n\n")
    return file


def steps(corpus: Path, *further: Pass) -> ModelOptions:
    return ModelOptions(recipe=(Pass(name="prune-vocabulary", parameters={"corpus": str(corpus)}), *further))


def test_the_corpus_keeps_its_vectors_to_the_bit(
    source: ModelSource, corpus: Path, context: HostContext
) -> None:
    whole = prepare_model(source, options=ModelOptions(recipe="fp32"), context=context)
    pruned = prepare_model(source, options=steps(corpus, Pass(name="fuse")), context=context)
    assert pruned.source.tokenizer != source.tokenizer
    np.testing.assert_array_equal(
        embed_with_onnxruntime(pruned.file, pruned.source, CORPUS),
        embed_with_onnxruntime(whole.file, source, CORPUS),
    )
    assert pruned.file.stat().st_size < whole.file.stat().st_size - 150 * 32 * 4


def test_other_texts_are_cut_into_smaller_pieces(
    source: ModelSource, corpus: Path, context: HostContext
) -> None:
    pruned = prepare_model(source, options=steps(corpus), context=context)
    tokenizer = Tokenizer.from_file(str(pruned.source.tokenizer))
    tokenizer.no_padding()
    assert tokenizer.encode("unused").tokens == ["[CLS]", "[UNK]", "[SEP]"]
    assert tokenizer.encode("x qx").tokens == ["[CLS]", "x", "q", "##x", "[SEP]"]
    assert tokenizer.encode("hello").tokens == ["[CLS]", "hello", "[SEP]"]
    assert tokenizer.get_vocab_size() < 30


def test_the_pruned_model_can_be_quantized(source: ModelSource, corpus: Path, context: HostContext) -> None:
    pruned = prepare_model(
        source, options=steps(corpus, Pass(name="fuse"), Pass(name="int8-dynamic")), context=context
    )
    vectors = embed_with_onnxruntime(pruned.file, pruned.source, CORPUS)
    assert (vectors * reference_vectors(source, CORPUS, context=context)).sum(axis=1).min() > 0.98


@pytest.mark.parametrize(
    "further",
    [
        (Pass(name="int8-dynamic", parameters={"steps": 9.2, "table_steps": 6.6, "weighed": True}),),
        (
            Pass(name="int8-dynamic", parameters={"steps": 9.2, "table_steps": 6.6, "rarity": 0.2}),
            Pass(name="trim"),
        ),
        (Pass(name="int8-static"),),
    ],
    ids=lambda further: further[0].name,
)
def test_passes_that_run_texts_cut_them_up_as_the_pruned_model_takes_them(
    source: ModelSource, corpus: Path, further: tuple[Pass, ...], tmp_path: Path, context: HostContext
) -> None:
    shown = tmp_path / "shown.txt"
    shown.write_text("hello unused world\nnever a small model\nmodels x q\n")
    fused = Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False})
    options = replace(steps(corpus, fused, Pass(name="smooth"), *further), calibration=shown)
    pruned = prepare_model(source, options=options, context=context)
    vectors = embed_with_onnxruntime(pruned.file, pruned.source, CORPUS)
    assert (vectors * reference_vectors(source, CORPUS, context=context)).sum(axis=1).min() > 0.97


def test_a_corpus_that_is_saved_meanwhile_makes_no_entry(
    source: ModelSource, corpus: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache had the model of the one corpus under the key of the other."""
    before = corpus.read_text()

    def saved(*given: Any, **named: Any) -> Any:
        corpus.write_text("a\n")
        return apply(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr("edgepack.recipes.prepare.apply", saved)
        with pytest.raises(OutputError, match="was changed while it was read"):
            prepare_model(source, options=steps(corpus), context=context)
    corpus.write_text(before)
    made = prepare_model(source, options=steps(corpus), context=context)
    corpus.write_text("a\n")
    assert prepare_model(source, options=steps(corpus), context=context).file != made.file


def test_another_corpus_is_another_model(source: ModelSource, corpus: Path, context: HostContext) -> None:
    first = prepare_model(source, options=steps(corpus), context=context)
    corpus.write_text("a\n")
    second = prepare_model(source, options=steps(corpus), context=context)
    assert second.file != first.file


WORDS = {"xx": ("hello", "model"), "yy": ("never", "unused")}


def test_words_of_languages_keep_their_tokens(
    source: ModelSource, corpus: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "words_of", lambda language, *, context: WORDS[language])
    monkeypatch.setattr(prepare, "word_list", lambda language: SimpleNamespace(sha256=language))
    whole = load_tokenizer(source).get_vocab()

    def kept(**parameters: Any) -> dict[str, int]:
        recipe = (Pass(name="prune-vocabulary", parameters=parameters),)
        made = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
        return load_tokenizer(made.source).get_vocab()

    one = kept(languages=["xx"])
    assert {"hello", "model"} <= one.keys() and not {"never", "unused", "world"} & one.keys()
    assert {token for token in whole if not any(map(str.isalpha, token))} <= one.keys()
    both = kept(languages=["xx", "yy"], corpus=str(corpus))
    assert {"hello", "model", "never", "unused", "world"} <= both.keys()


def test_a_language_without_words_is_named_with_those_that_have_some(
    source: ModelSource, context: HostContext
) -> None:
    options = ModelOptions(recipe=(Pass(name="prune-vocabulary", parameters={"languages": ["ed"]}),))
    with pytest.raises(UsageError, match="no words of the language 'ed'") as refused:
        prepare_model(source, options=options, context=context)
    assert refused.value.hint is not None and "bg, ca, da, de" in refused.value.hint


def test_words_stand_alone_at_beginnings_and_behind_brackets() -> None:
    assert in_texts(["der", "Hof"]) == ["der Hof Der Hof (der (Hof"]
    assert [len(text.split()) for text in in_texts(["a"] * 20)] == [48, 12]


def test_word_lists_are_read_in_either_encoding_and_thinned_out(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "words.tar.gz"
    with tarfile.open(package, "w:gz") as archive:
        for name, content in {"swedish": "ö\nå\n".encode("latin-1"), "german": "ö\nü\nä\n".encode()}.items():
            member = tarfile.TarInfo(f"usr/share/dict/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        # Debian's alternatives, of other names for a list.
        link = tarfile.TarInfo("usr/share/dict/svenska")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/dictionaries-common/svenska"
        archive.addfile(link)
    monkeypatch.setattr(word_lists, "fetch_archives", lambda wanted, *, context: [package])
    monkeypatch.setattr(word_lists, "MOST", 2)
    monkeypatch.setitem(word_lists.LISTS, "de", replace(word_lists.LISTS["de"], file="german"))
    assert word_lists.words_of("sv", context=context) == ("ö", "å")
    assert word_lists.words_of("de", context=context) == ("ö", "ä")


@pytest.mark.slow
@pytest.mark.parametrize("language", word_lists.LISTS)
def test_every_language_has_its_words(language: str, online: HostContext) -> None:
    words = word_lists.words_of(language, context=online)
    assert 80_000 < len(words) <= word_lists.MOST
    assert all(word.isprintable() and " " not in word for word in words)


def test_a_text_that_would_be_cut_up_otherwise_is_named(source: ModelSource) -> None:
    """Its longest beginning goes, and the shorter one leads further than it did."""
    document = json.loads(source.tokenizer.read_text())
    vocabulary = document["model"]["vocab"]
    for word in ("qxz", "##zy"):
        vocabulary[word] = len(vocabulary)
    vocabulary.pop("##y", None)
    source.tokenizer.write_text(json.dumps(document))
    with pytest.raises(ModelError, match="'hello qxzy' would be cut up otherwise"):
        prune_vocabulary(
            onnx.ModelProto(), print, Material(source=source, texts=("hello", "hello qxzy", "xzy"))
        )


def unigram() -> dict[str, Any]:
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [("▁", -2.0), ("▁hello", -4.0), ("▁he", -5.0), ("llo", -5.5), ("▁wor", -6.0), ("ld", -6.5)]
    pieces += [(letter, -9.0) for letter in "helowrdq"] + [("zzz", -11.0)]
    return {
        "added_tokens": [{"id": 3, "content": "<unk>"}],
        "model": {"type": "Unigram", "unk_id": 3, "vocab": [list(piece) for piece in pieces]},
        "post_processor": {
            "type": "TemplateProcessing",
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
        },
    }


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("padding", {"pad_id": 888888}, "names the token 888888, which its vocabulary has not"),
        (
            "added_tokens",
            [{"id": 10**6, "content": "[X]"}],
            r"has the token 1000000, and the embedding table \d+ rows",
        ),
    ],
)
def test_ids_that_no_row_is_of(
    source: ModelSource, corpus: Path, key: str, value: Any, words: str, context: HostContext
) -> None:
    document = json.loads(source.tokenizer.read_text())
    if key == "padding":
        rest = {
            "strategy": "BatchLongest",
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_type_id": 0,
        }
        document[key] = {**rest, "pad_token": "[PAD]", **value}
    else:
        document[key] += [{**document[key][0], **each} for each in value]
    source.tokenizer.write_text(json.dumps(document))
    with pytest.raises(ModelError, match=words):
        prepare_model(source, options=steps(corpus), context=context)


def test_unigram_pieces() -> None:
    document = unigram()
    kept = kept_tokens(document, {"▁hello", "▁wor", "ld"}, padding=1)
    assert {"▁hello", "▁wor", "ld", "<s>", "<pad>", "<unk>", "q", "▁"} <= kept
    assert not {"▁he", "llo"} & kept
    assert "zzz" in kept, "what an unknown character costs is reckoned from the lowest score"
    rows = [number for number, (piece, _) in enumerate(document["model"]["vocab"]) if piece in kept]
    pruned = pruned_tokenizer(document, rows)
    pieces = [piece for piece, _ in pruned["model"]["vocab"]]
    assert pieces.index("<unk>") == pruned["model"]["unk_id"] == pruned["added_tokens"][0]["id"]


def test_merges_that_lead_to_a_kept_token_stay() -> None:
    words = ["<s>", "a", "b", "c", "d", "ab", "abc", "cd", "bc"]
    document = {
        "model": {
            "type": "BPE",
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": ["a b", ["ab", "c"], "c d", "b c"],
        }
    }
    kept = kept_tokens(document, {"abc"}, padding=0)
    assert {"ab", "abc", "a", "b", "c", "d"} <= kept and not {"cd", "bc"} & kept
    pruned = pruned_tokenizer(document, [number for number, word in enumerate(words) if word in kept])
    assert pruned["model"]["merges"] == ["a b", ["ab", "c"]]


def test_processors_are_numbered_anew() -> None:
    document = {
        "model": {"vocab": {"a": 0, "b": 1, "[SEP]": 2, "[CLS]": 3}},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 3]},
        "padding": {"pad_id": 2},
    }
    pruned = pruned_tokenizer(document, [0, 2, 3])
    assert pruned["post_processor"] == {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 2]}
    assert pruned["padding"] == {"pad_id": 1}


@pytest.mark.parametrize(
    "outputs",
    [
        Outputs(multi_vector=MultiVector(dense=(), dimension=8, query=Side(marker=4))),
        Outputs(dense=True, sparse=Sparse(size=200)),
    ],
)
def test_a_model_whose_settings_name_tokens_is_refused(
    source: ModelSource, corpus: Path, outputs: Outputs
) -> None:
    """They stayed as they were, and were other tokens then."""
    material = Material(source=replace(source, outputs=outputs))
    with pytest.raises(ModelError, match=f"the vocabulary of {outputs.noun} cannot be pruned"):
        prune_vocabulary(onnx.ModelProto(), print, material, corpus=str(corpus))


def test_without_a_corpus_nothing_is_guessed(source: ModelSource, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="without a corpus"):
        prune_vocabulary(onnx.ModelProto(), print, Material(source=source))
    with pytest.raises(UsageError, match="cannot read"):
        prune_vocabulary(
            onnx.ModelProto(), print, Material(source=source), corpus=str(tmp_path / "missing.txt")
        )
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UsageError, match="holds no calibration texts"):
        prune_vocabulary(
            onnx.ModelProto(), print, Material(source=source), corpus=str(tmp_path / "empty.txt")
        )
