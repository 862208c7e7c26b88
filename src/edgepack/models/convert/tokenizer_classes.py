"""The classes of tokenizers that transformers 5 has, each made of its older files: after its ``models/*/tokenization_*.py``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from tokenizers import decoders as decode

from edgepack.errors import UnsupportedModelError
from edgepack.models.convert.sentencepiece import BPE, UNIGRAM, SentencePieceModel

VOCABULARY, WORDS, MERGES = "vocab.txt", "vocab.json", "merges.txt"
MODELS = ("sentencepiece.bpe.model", "spiece.model", "tokenizer.model")
MARK = "▁"
EXTRA_IDS = 100
"""Of T5's tokens for what is left out of a text."""

Said = Mapping[str, Any]
"""What tokenizer_config.json and the files beside it say."""
Scored = list[tuple[str, float]]
Make = Callable[[Path, Said, SentencePieceModel | None], Tokenizer]
Steps = Callable[[Tokenizer, Said, bytes], None]
"""Sets normalizer and pre-tokenizer by the settings, and by SentencePiece's table of characters, which may be empty."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """How transformers makes one class of tokenizers."""

    files: tuple[str, ...]
    make: Make
    specials: Mapping[str, Any]
    """Role → token, where the files name none."""
    frame: Callable[[Tokenizer, Said], Any]
    """The post-processor."""
    steps: Steps | None = None
    """What ``make`` does, too, of its tokenizer; ``None`` where that is not known of a tokenizer.json."""
    further: tuple[str, ...] = ()
    """Special tokens that no role names."""


def content_of(token: Any) -> str:
    """Text of a token, which files write as a text or as an object."""
    return str(token["content"] if isinstance(token, Mapping) else token)


def _wordpiece(directory: Path, said: Said, model: SentencePieceModel | None) -> Tokenizer:
    vocabulary = models.WordPiece.read_file(str(directory / VOCABULARY))
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=content_of(said["unk_token"])))
    _bert_steps(tokenizer, said, b"")
    tokenizer.decoder = decode.WordPiece(prefix="##")
    return tokenizer


def _bert_steps(tokenizer: Tokenizer, said: Said, charsmap: bytes) -> None:
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=said.get("tokenize_chinese_chars", True),
        strip_accents=said.get("strip_accents"),
        lowercase=said.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()


def _byte_level(directory: Path, said: Said, model: SentencePieceModel | None) -> Tokenizer:
    vocabulary, merges = models.BPE.read_file(str(directory / WORDS), str(directory / MERGES))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    _byte_level_steps(tokenizer, said, b"")
    tokenizer.decoder = decode.ByteLevel()
    return tokenizer


def _byte_level_steps(tokenizer: Tokenizer, said: Said, charsmap: bytes) -> None:
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=said.get("add_prefix_space", False))


def _xlm_roberta(pieces: Scored, said: Said) -> tuple[Scored, int]:
    """fairseq's special tokens go before SentencePiece's own three."""
    begin, pad, end, unknown, mask = (
        content_of(said[role]) for role in ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    )
    return [*((token, 0.0) for token in (begin, pad, end, unknown)), *pieces[3:], (mask, 0.0)], 3


def _camembert(pieces: Scored, said: Said) -> tuple[Scored, int]:
    pad, unknown, mask = (content_of(said[role]) for role in ("pad_token", "unk_token", "mask_token"))
    first = [("<s>NOTUSED", 0.0), (pad, 0.0), ("</s>NOTUSED", 0.0), (unknown, 0.0), ("<unk>NOTUSED", -100.0)]
    vocabulary = [*first, *pieces[1:], (mask, 0.0)]
    return vocabulary, next((at for at, (token, _) in enumerate(vocabulary) if token == unknown), 0)


def _t5(pieces: Scored, said: Said) -> tuple[Scored, int]:
    return [*pieces, *((f"<extra_id_{number}>", 0.0) for number in reversed(range(EXTRA_IDS)))], 2


def _as_they_are(pieces: Scored, said: Said) -> tuple[Scored, int]:
    return pieces, 1


def _unigram(arrange: Callable[[Scored, Said], tuple[Scored, int]]) -> Make:
    """``arrange`` gives tokens with scores, and the place of the unknown one."""

    def make(directory: Path, said: Said, model: SentencePieceModel | None) -> Tokenizer:
        assert model is not None
        if model.kind != UNIGRAM:
            raise UnsupportedModelError(
                f"{said.get('tokenizer_class', 'the tokenizer')} is made of a Unigram model, and the file holds another",
                hint="transformers' save_pretrained writes a tokenizer.json, if it knows the file",
            )
        vocabulary, unknown = arrange([(piece.text, piece.score) for piece in model.pieces], said)
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=False))
        _unigram_steps(tokenizer, said, model.charsmap)
        tokenizer.decoder = decode.Metaspace(replacement=MARK, prepend_scheme=_scheme(said))
        return tokenizer

    return make


def _scheme(said: Said) -> str:
    return "always" if said.get("add_prefix_space", True) else "never"


def _unigram_steps(tokenizer: Tokenizer, said: Said, charsmap: bytes) -> None:
    tokenizer.normalizer = normalizers.Precompiled(charsmap) if charsmap else None
    spaces = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme=_scheme(said))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])


def _albert(directory: Path, said: Said, model: SentencePieceModel | None) -> Tokenizer:
    assert model is not None
    tokenizer = _unigram(_as_they_are)(directory, said, model)
    _albert_steps(tokenizer, said, model.charsmap)
    return tokenizer


def _albert_steps(tokenizer: Tokenizer, said: Said, charsmap: bytes) -> None:
    _unigram_steps(tokenizer, said, charsmap)
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not said.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if said.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    if tokenizer.normalizer is not None:
        steps.append(tokenizer.normalizer)
    tokenizer.normalizer = normalizers.Sequence(steps)


def _bytes_behind(said: Said, model: SentencePieceModel | None, **how: Any) -> Tokenizer:
    """BPE of characters; what is not in the vocabulary is bytes."""
    assert model is not None
    if model.kind != BPE:
        raise UnsupportedModelError(
            f"{said.get('tokenizer_class', 'the tokenizer')} is made of a BPE model, and the file holds another",
            hint="transformers' save_pretrained writes a tokenizer.json, if it knows the file",
        )
    vocabulary = {piece.text: number for number, piece in enumerate(model.pieces)}
    merges = merges_of(vocabulary)
    return Tokenizer(models.BPE(vocabulary, merges, fuse_unk=True, byte_fallback=True, **how))


def _gemma(directory: Path, said: Said, model: SentencePieceModel | None) -> Tokenizer:
    tokenizer = _bytes_behind(said, model, unk_token=content_of(said["unk_token"]))
    _gemma_steps(tokenizer, said, b"")
    return tokenizer


def _gemma_steps(tokenizer: Tokenizer, said: Said, charsmap: bytes) -> None:
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")


def _qwen2_steps(tokenizer: Tokenizer, said: Said, charsmap: bytes) -> None:
    tokenizer.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(_QWEN2_WORDS), "isolated")
    letters = pre_tokenizers.ByteLevel(add_prefix_space=said.get("add_prefix_space", False), use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, letters])


def _llama(directory: Path, said: Said, model: SentencePieceModel | None) -> Tokenizer:
    tokenizer = _bytes_behind(said, model)
    first = "always" if said.get("legacy", False) else "first"
    scheme = first if said.get("add_prefix_space", True) else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme=scheme, split=False)
    return tokenizer


def merges_of(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """The pairs whose two parts and whole are tokens, by the whole's number, as SentencePiece would join them."""
    found = []
    for whole, number in vocabulary.items():
        pairs = [(whole[:at], whole[at:]) for at in range(1, len(whole))]
        known = [pair for pair in pairs if pair[0] in vocabulary and pair[1] in vocabulary]
        known.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        found += [(number, len(left), len(right), left, right) for left, right in known]
    found.sort(key=lambda each: each[:3])
    return [(left, right) for _, _, _, left, right in found]


def _template(single: str, pair: str) -> Callable[[Tokenizer, Said], Any]:
    """A frame in which each role stands for its token."""

    def frame(tokenizer: Tokenizer, said: Said) -> Any:
        tokens = {
            role: content_of(said[f"{role}_token"])
            for role in ("bos", "eos", "cls", "sep")
            if f"{role}_token" in said
        }
        used = {role: token for role, token in tokens.items() if f"{{{role}}}" in single}
        specials = [(token, tokenizer.token_to_id(token)) for token in dict.fromkeys(used.values())]
        return processors.TemplateProcessing(
            single=_filled(single, used),
            pair=_filled(pair, used),
            special_tokens=specials,
        )

    return frame


def _filled(template: str, tokens: Mapping[str, str]) -> list[str]:
    return [piece.format(**tokens) for piece in template.split()]


def _roberta_frame(tokenizer: Tokenizer, said: Said) -> Any:
    end, begin = (content_of(said[role]) for role in ("sep_token", "cls_token"))
    spaced = bool(said.get("add_prefix_space", False))
    trimmed = bool(said.get("trim_offsets", True))
    return processors.RobertaProcessing(
        (end, tokenizer.token_to_id(end) or 0), (begin, tokenizer.token_to_id(begin) or 0), trimmed, spaced
    )


def _as_asked(tokenizer: Tokenizer, said: Said) -> Any:
    """Add a token before a text and one behind it, where the settings say so."""
    before, after = bool(said.get("add_bos_token")), bool(said.get("add_eos_token"))
    sides = (
        " ".join([f"{{bos}}:{kind}"] * before + [f"${text}:{kind}"] + [f"{{eos}}:{kind}"] * after)
        for kind, text in enumerate("AB")
    )
    first, second = sides
    return _template(first, f"{first} {second}")(tokenizer, said)


_QWEN2_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_FAIRSEQ = {
    "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>",
    "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>",
}  # fmt: skip
_BERT = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
}  # fmt: skip
_ALBERT = {**_BERT, "bos_token": "[CLS]", "eos_token": "[SEP]", "unk_token": "<unk>", "pad_token": "<pad>"}
_GEMMA = {
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_T5 = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_LEFT = {"content": "<mask>", "lstrip": True}
_PIECES, _SPIECE, _MODEL = MODELS
_ENDS = _template("{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
_ROUND = _template("{bos} $A {eos}", "{bos} $A {eos} {eos} $B {eos}")

FAMILIES: Mapping[str, Family] = {
    "AlbertTokenizer": Family(
        files=(_SPIECE,), make=_albert, steps=_albert_steps, specials=_ALBERT, frame=_ENDS
    ),
    "BertTokenizer": Family(
        files=(VOCABULARY,), make=_wordpiece, steps=_bert_steps, specials=_BERT, frame=_ENDS
    ),
    "CamembertTokenizer": Family(
        files=(_PIECES,),
        make=_unigram(_camembert),
        steps=_unigram_steps,
        specials={**_FAIRSEQ, "mask_token": _LEFT},
        frame=_ROUND,
    ),
    "DistilBertTokenizer": Family(
        files=(VOCABULARY,), make=_wordpiece, steps=_bert_steps, specials=_BERT, frame=_ENDS
    ),
    "ElectraTokenizer": Family(
        files=(VOCABULARY,), make=_wordpiece, steps=_bert_steps, specials=_BERT, frame=_ENDS
    ),
    "GemmaTokenizer": Family(files=(_MODEL,), make=_gemma, specials=_GEMMA, frame=_as_asked),
    "LlamaTokenizer": Family(files=(_MODEL,), make=_llama, specials=_LLAMA, frame=_as_asked),
    "MPNetTokenizer": Family(
        files=(VOCABULARY,),
        make=_wordpiece,
        steps=_bert_steps,
        specials={**_FAIRSEQ, "unk_token": "[UNK]", "mask_token": _LEFT},
        frame=_roberta_frame,
    ),
    "RobertaTokenizer": Family(
        files=(WORDS, MERGES),
        make=_byte_level,
        steps=_byte_level_steps,
        specials=_FAIRSEQ,
        frame=_roberta_frame,
    ),
    "T5Tokenizer": Family(
        files=(_SPIECE,),
        make=_unigram(_t5),
        steps=_unigram_steps,
        specials=_T5,
        frame=_template("$A {eos}", "$A {eos} $B {eos}"),
        further=tuple(f"<extra_id_{number}>" for number in range(EXTRA_IDS)),
    ),
    "XLMRobertaTokenizer": Family(
        files=(_PIECES,), make=_unigram(_xlm_roberta), steps=_unigram_steps, specials=_FAIRSEQ, frame=_ROUND
    ),
}
"""transformers' classes."""
ALSO = {
    **dict.fromkeys(("BartTokenizer", "LongformerTokenizer"), "RobertaTokenizer"),
    **dict.fromkeys(
        (
            "ConvBertTokenizer",
            "DPRContextEncoderTokenizer",
            "DPRQuestionEncoderTokenizer",
            "DPRReaderTokenizer",
            "LayoutLMTokenizer",
            "LxmertTokenizer",
            "MobileBertTokenizer",
            "RetriBertTokenizer",
            "SqueezeBertTokenizer",
        ),
        "BertTokenizer",
    ),
}
"""Other names of those classes."""
BYTE_LEVEL = ("CodeGenTokenizer", "DebertaTokenizer", "GPT2Tokenizer", "Qwen2Tokenizer", "RobertaTokenizer")
"""Classes that say by the settings alone whether a space goes before a text."""
BY_RELEASE_5: Mapping[str, Steps] = {"GemmaTokenizer": _gemma_steps, "Qwen2Tokenizer": _qwen2_steps}
"""Of classes of which release 4 takes normalizer and pre-tokenizer from a tokenizer.json, what release 5 puts in their place."""
GIVEN = ("PreTrainedTokenizer", "TokenizersBackend")
"""Classes of a tokenizer.json as it is."""
CLASSES = {
    "albert": "AlbertTokenizer", "bert": "BertTokenizer", "camembert": "CamembertTokenizer", "distilbert": "BertTokenizer",
    **dict.fromkeys(
        ("convbert", "electra", "ernie", "layoutlm", "lxmert", "megatron-bert", "mobilebert", "nezha", "squeezebert"),
        "BertTokenizer",
    ),
    "gemma": "GemmaTokenizer", "gemma2": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer",
    "mpnet": "MPNetTokenizer", "nomic_bert": "BertTokenizer",
    "roberta": "RobertaTokenizer", "t5": "T5Tokenizer", "xlm-roberta": "XLMRobertaTokenizer",
}  # fmt: skip
"""``model_type`` → the class that transformers takes where tokenizer_config.json names none."""


def class_of(config: Said, said: Said) -> str:
    """The class that transformers takes, without ``Fast``, by what tokenizer_config.json and config.json say."""
    named = said.get("tokenizer_class") or config.get("tokenizer_class")
    return str(named or CLASSES.get(str(config.get("model_type")), GIVEN[0])).removesuffix("Fast")
