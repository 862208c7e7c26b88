"""A tokenizer.json beside settings that say another thing: transformers follows these, and a bundle has tokenizer.json alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.checkpoints import change, write_felt
from tests.support.tiny import tokenizer_document, write_json, write_model
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.convert.agreeing_tokenizer import require_agreement
from edgepack.models.convert.tokenizer_classes import BY_RELEASE_5
from edgepack.models.find.source import ingest
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.plugins.context import HostContext

BERT = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": None}
ROUND = {"bos_token": "<s>", "eos_token": "</s>"}
ENDS = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny")


def warnings(model: Path, *, pairs: bool = False) -> tuple[str, ...]:
    return require_agreement(ModelFolder(directory=model), model / "tokenizer.json", pairs=pairs)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"do_lower_case": False}, "normalized as 'hello world' or as 'Hello World'"),
        ({"strip_accents": False}, "normalized as 'ecole naive' or as 'école naïve'"),
        ({"tokenize_chinese_chars": False}, "normalized as"),
        ({"sep_token": "[PAD]"}, "framed as"),
        ({"cls_token": "[NO]"}, "'[NO]' is no token (cls_token)"),
        ({"tokenizer_class": "MPNetTokenizer"}, "'<s>' is no token (bos_token)"),
        ({"unk_token": "[PAD]"}, "an unknown word is '[UNK]' or '[PAD]'"),
        ({"pad_token": "hello"}, "'hello' is a special token by the one alone"),
        ({"do_lower_case": [1]}, "make no tokenizer"),
    ],
)
def test_settings_that_tokenizer_json_contradicts(model: Path, said: dict[str, Any], words: str) -> None:
    further = {"extra_special_tokens": {"image_token": "<image>"}}
    write_json(model / "tokenizer_config.json", BERT | further)
    assert warnings(model) == ()
    write_json(model / "tokenizer_config.json", {**BERT, **said})
    with pytest.raises(ModelError) as caught:
        warnings(model)
    assert words in caught.value.message


def test_the_class_lowers_where_nothing_says_that_it_does_not(model: Path, context: HostContext) -> None:
    write_json(model / "tokenizer.json", tokenizer_document(lowercase=False))
    with pytest.raises(ModelError, match="'Hello World' or as 'hello world'") as caught:
        ingest(str(model), context=context)
    assert "save_pretrained" in str(caught.value.hint)
    write_json(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert warnings(model) == (), "this class takes tokenizer.json as it is"


@pytest.mark.parametrize(
    "said",
    [
        {"additional_special_tokens": ["<query>"]},
        {"extra_special_tokens": ["<query>"]},
        {"added_tokens_decoder": {"10": {"content": "<query>", "special": True}}},
        {"pad_token": "<query>"},
    ],
)
def test_tokens_that_the_settings_alone_have(model: Path, said: dict[str, Any]) -> None:
    write_json(model / "tokenizer_config.json", BERT | said)
    assert warnings(model) == (), "there is no vector of it"
    change(model / "config.json", vocab_size=12)
    (warning,) = warnings(model)
    assert warning.startswith("<query>: a token to transformers, and words to a bundle")
    for settings in ({"prompts": {"query": "<query> "}}, {"query_prefix": "<query>"}):
        write_json(model / "config_sentence_transformers.json", settings)
        with pytest.raises(ModelError, match="'<query>' is a special token by the one alone"):
            warnings(model)


@pytest.mark.parametrize(
    ("kind", "said", "words"),
    [
        ("deberta-v2", {}, "the settings of a deberta-v2 model's tokenizer were not compared"),
        ("deberta", {"tokenizer_class": "DebertaTokenizerFast"}, "transformers 5 does not read all"),
        ("qwen2", {"tokenizer_class": "PreTrainedTokenizerFast"}, ""),
    ],
)
def test_classes_that_are_not_compared(model: Path, kind: str, said: dict[str, Any], words: str) -> None:
    change(model / "config.json", model_type=kind)
    write_json(model / "tokenizer_config.json", said)
    if kind == "deberta-v2":
        assert warnings(model) == ()
        unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0, byte_fallback=False))
        unigram.save(str(model / "tokenizer.json"))
    assert [words in each for each in warnings(model)] == [True] * bool(words)


TWO_INPUTS = {"model_input_names": ["input_ids", "attention_mask"]}


@pytest.mark.parametrize(
    ("said", "types"),
    [
        (BERT, {0, 1}),
        (BERT | {"model_input_names": ["input_ids", "token_type_ids"]}, {0, 1}),
        (BERT | TWO_INPUTS, {0}),
        ({"tokenizer_class": "TokenizersBackend"}, {0}),
        ({"tokenizer_class": "DistilBertTokenizerFast"}, {0}),
    ],
)
@pytest.mark.parametrize("frame", ["TemplateProcessing", "BertProcessing", "ByteLevel", "Sequence"])
def test_tokens_have_types_where_transformers_takes_them(
    tmp_path: Path, context: HostContext, said: dict[str, Any], types: set[int], frame: str
) -> None:
    write_felt(tmp_path / "model", "bert", "ForSequenceClassification", num_labels=1)
    write_json(tmp_path / "model/tokenizer_config.json", said)
    tokenizer = Tokenizer.from_file(str(tmp_path / "model/tokenizer.json"))
    ends, bare = [("[SEP]", 3), ("[CLS]", 2)], processors.ByteLevel()
    template = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    tokenizer.post_processor = {
        "BertProcessing": processors.BertProcessing(*ends),
        "ByteLevel": bare,
        "Sequence": processors.Sequence([bare, template]),
        "TemplateProcessing": template,
    }[frame]
    if frame == "ByteLevel" and "BertTokenizer" in str(said):
        pytest.skip("the class puts tokens around a text")
    tokenizer.no_padding()
    tokenizer.save(str(tmp_path / "model/tokenizer.json"))
    before = tokenizer.encode("hello", "a small model")
    loaded = load_tokenizer(ingest(str(tmp_path / "model"), context=context))
    made = loaded.encode("hello", "a small model")
    assert (made.ids, set(made.type_ids)) == (before.ids, types)


def test_the_only_text_has_no_other_type(model: Path, context: HostContext) -> None:
    document = tokenizer_document()
    for piece in document["post_processor"]["single"]:
        next(iter(piece.values()))["type_id"] = 1
    write_json(model / "tokenizer.json", document)
    for said, types in (({}, {1}), (TWO_INPUTS, {0})):
        write_json(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **said})
        source = ingest(str(model), context=context)
        assert set(load_tokenizer(source).encode("hello").type_ids) == types


def with_pairs(model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(model / "tokenizer.json"))


def test_types_that_one_release_gives(model: Path) -> None:
    with_pairs(model)
    write_json(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert warnings(model) == ()
    assert warnings(model, pairs=True) == (
        "transformers 5 gives the tokens of a pair's second text no type by a PreTrainedTokenizer, and makes other scores",
    )
    write_json(model / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **TWO_INPUTS})
    assert warnings(model, pairs=True) == ()


def test_types_that_the_graph_has_none_of(model: Path) -> None:
    with_pairs(model)
    change(model / "config.json", model_type="roberta", type_vocab_size=2)
    write_json(model / "tokenizer_config.json", BERT)
    assert warnings(model) == ()
    with pytest.raises(UnsupportedModelError, match="are of another type"):
        warnings(model, pairs=True)
    change(model / "config.json", type_vocab_size=1)
    assert warnings(model, pairs=True) == ()


def test_tokens_that_an_older_file_names(model: Path) -> None:
    write_json(model / "special_tokens_map.json", {"sep_token": {"content": "[PAD]"}})
    with pytest.raises(ModelError, match="framed as"):
        warnings(model)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tokenizer_config.json", {"split_special_tokens": True}),
        (
            "tokenizer.json",
            {"truncation": {"max_length": 9, "strategy": "LongestFirst", "stride": 0, "direction": "Left"}},
        ),
    ],
)
def test_what_bundles_do_not_do(model: Path, name: str, said: dict[str, Any]) -> None:
    write_json(model / name, (tokenizer_document() if name == "tokenizer.json" else {}) | said)
    with pytest.raises(UnsupportedModelError, match=next(iter(said))):
        warnings(model)


def test_a_pair_has_a_frame_of_its_own(model: Path) -> None:
    assert warnings(model) == ()
    with pytest.raises(ModelError, match="framed as"):
        warnings(model, pairs=True)


def fairseq(model: Path, tokenizer: Tokenizer, **said: Any) -> None:
    tokenizer.add_special_tokens(list(ENDS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(model / "tokenizer.json"))
    write_json(model / "tokenizer_config.json", said)


def byte_level(*, space: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({**ENDS, "a": 4}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    return tokenizer


@pytest.mark.parametrize("name", ["RobertaTokenizer", "BartTokenizer", "GPT2TokenizerFast"])
def test_the_space_before_a_text(model: Path, name: str) -> None:
    fairseq(model, byte_level(space=False), tokenizer_class=name, add_prefix_space=False)
    assert warnings(model) == ()
    fairseq(model, byte_level(space=False), tokenizer_class=name, add_prefix_space=True)
    with pytest.raises(ModelError, match=r"split as .'Hello', 'ĠWorld'. or as .'ĠHello', 'ĠWorld'."):
        warnings(model)
    fairseq(model, byte_level(space=True), tokenizer_class=name)
    with pytest.raises(ModelError, match=r"split as .'ĠHello', 'ĠWorld'. or as .'Hello', 'ĠWorld'."):
        warnings(model)


def test_the_space_of_which_release_4_alone_asks_the_settings(model: Path) -> None:
    fairseq(model, byte_level(space=True), tokenizer_class="PreTrainedTokenizerFast")
    (warned,) = warnings(model)
    assert "transformers 4 does not read all of tokenizer.json for a PreTrainedTokenizer" in warned
    config = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", config | {"model_type": "modernbert"})
    fairseq(model, byte_level(space=True))
    assert warnings(model) == (warned,), "a type without a class of its own"


@pytest.mark.parametrize(
    "said",
    [{"tokenizer_class": "DPRQuestionEncoderTokenizer"}, {"tokenizer_class": "MobileBertTokenizerFast"}, {}],
)
def test_berts_class_under_other_names(model: Path, said: dict[str, Any]) -> None:
    config = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", config | {"model_type": "ernie"})
    write_json(model / "tokenizer_config.json", said)
    assert warnings(model) == ()
    write_json(model / "tokenizer.json", tokenizer_document(lowercase=False))
    with pytest.raises(ModelError, match="'Hello World' or as 'hello world'"):
        warnings(model)


def test_a_class_that_nobody_knows_is_a_warning(model: Path) -> None:
    write_json(model / "tokenizer_config.json", {"tokenizer_class": "FunnelTokenizer"})
    assert warnings(model) == ("the settings of a FunnelTokenizer were not compared with tokenizer.json",)


def test_where_a_token_of_the_users_is_found(model: Path) -> None:
    document = tokenizer_document()
    token = {"content": "hello", "single_word": False, "lstrip": False, "rstrip": False, "special": False}
    number = document["model"]["vocab"]["hello"]
    document["added_tokens"].append({"id": number, **token, "normalized": True})
    write_json(model / "tokenizer.json", document)

    def listed(**flags: bool) -> tuple[str, ...]:
        decoder = {str(number): {**token, "normalized": True, **flags}}
        write_json(model / "tokenizer_config.json", {**BERT, "added_tokens_decoder": decoder})
        return warnings(model)

    assert listed() == ()
    with pytest.raises(ModelError, match="'hello' is found in other places"):
        listed(single_word=True)
    assert "transformers 5" in listed(normalized=False)[0]


@pytest.mark.parametrize("setting", [{"max_input_chars_per_word": 20}, {"continuing_subword_prefix": "@@"}])
def test_settings_of_a_vocabulary_that_release_5_leaves_out(model: Path, setting: dict[str, Any]) -> None:
    document = tokenizer_document()
    document["model"] |= setting
    write_json(model / "tokenizer.json", document)
    assert "transformers 5" in warnings(model)[0]


def test_the_frame_of_which_release_4_alone_asks_the_settings(model: Path) -> None:
    for said in ({"add_eos_token": True}, {"add_bos_token": True, "add_eos_token": True}):
        fairseq(model, byte_level(space=False), tokenizer_class="LlamaTokenizer", **said)
        assert warnings(model) == ()
    fairseq(model, byte_level(space=False), tokenizer_class="LlamaTokenizer")
    assert "transformers 4" in warnings(model)[0]


@pytest.mark.parametrize("name", ["Qwen2TokenizerFast", "GemmaTokenizer"])
def test_the_words_that_release_5_alone_makes_by_the_class(model: Path, name: str) -> None:
    tokenizer = byte_level(space=False)
    fairseq(model, tokenizer, tokenizer_class=name, add_bos_token=True, add_eos_token=True, **ROUND)
    assert "transformers 5" in warnings(model)[0]
    BY_RELEASE_5[name.removesuffix("Fast")](tokenizer, {}, b"")
    fairseq(model, tokenizer, tokenizer_class=name, add_bos_token=True, add_eos_token=True, **ROUND)
    assert warnings(model) == ()


@pytest.mark.parametrize("named", [{"tokenizer_class": "XLMRobertaTokenizer"}, {}])
def test_what_release_5_alone_leaves_out_is_a_warning(model: Path, named: dict[str, str]) -> None:
    config = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", config | {"model_type": "xlm-roberta"})
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])

    def of(**other: Any) -> tuple[str, ...]:
        unknown = other.pop("unk_id", 3)
        pieces = [*((token, 0.0) for token in ENDS), ("▁a", -1.0)]
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown))
        tokenizer.pre_tokenizer = other.get("pre_tokenizer", words)
        tokenizer.normalizer = other.get("normalizer")
        fairseq(model, tokenizer, **named)
        return warnings(model)

    assert of() == ()
    for other in (
        {"normalizer": normalizers.NFKC()},
        {"pre_tokenizer": pre_tokenizers.Metaspace()},
        {"unk_id": 4},
    ):
        (warned,) = of(**other)
        assert "transformers 5 does not read all of tokenizer.json for a XLMRobertaTokenizer" in warned
