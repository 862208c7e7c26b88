"""What sentence-transformers writes beside the weights on texts: prompts, and how long they may be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import EDITED
from edgepack.models.read.model_folder import SETTINGS, ModelFolder

TOKENIZER_FILE = "tokenizer_config.json"

_SETTINGS = {
    "__version__", "activation_fn", "attend_to_expansion_tokens", "attend_to_mask_tokens", "default_prompt_name",
    "do_query_expansion", "document_length", "document_prefix", "keep_in_fp32_modules", "max_active_dims", "model_type",
    "prompts", "query_expansion", "query_length", "query_prefix", "requirements", "similarity_fn_name", "skiplist_words",
    "truncate_dim",
}  # fmt: skip
"""Settings of a model as a whole that are read, refused, or change no number."""
_TRANSFORMER = {
    "config_args", "config_kwargs", "do_lower_case", "document_length", "max_seq_length", "modality_config", "model_args",
    "model_kwargs", "module_output_name", "processing_kwargs", "processor_kwargs", "query_expansion", "query_length",
    "tokenizer_args", "tokenizer_name_or_path", "transformer_task", "unpad_inputs",
}  # fmt: skip
"""Those of the Transformer module."""

FALLBACK_LENGTH = 512
UNLIMITED = 1_000_000
"""tokenizer_config.json says 1e30 and the like for a model without a limit."""

# Position ids of these begin after the padding id, so that the table has rows which no token reaches.
_OFFSET_POSITIONS = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})
MPNET_PADDING = 1
"""MPNet's padding id, written into the architecture whatever config.json says."""


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts that are put before texts, by purpose."""

    texts: Mapping[str, str]
    default: str | None
    """The purpose whose prompt sentence-transformers puts before a text unasked."""
    files: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.default is None:
            return ()
        return (
            f"sentence-transformers puts the {self.default} prompt {self.texts[self.default]!r} before each text unasked, a bundle does not",
        )


def unread_settings(folder: ModelFolder) -> tuple[str, ...]:
    """Warnings of settings that nothing here reads, and that say something: newer versions of sentence-transformers may obey them."""
    documents = ((SETTINGS, _SETTINGS), (folder.transformer_file, _TRANSFORMER))
    return tuple(
        f"{name} has {key[:60]!r}, which edgepack does not read: sentence-transformers may make other numbers by it"
        for name, known in documents
        for key, value in folder.optional(name).items()
        if value and key not in known
    )


def read_prompts(folder: ModelFolder) -> Prompts:
    """Raises ``ModelError``."""
    document = folder.settings
    prompts = document.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(
        text is None or isinstance(text, str) for text in prompts.values()
    ):
        raise ModelError(f"{SETTINGS}: prompts is not a table of texts by purpose", hint=EDITED)
    said = {str(purpose): text for purpose, text in prompts.items() if text}
    default = document.get("default_prompt_name")
    files = (SETTINGS,) if said or document.get("truncate_dim") else ()
    return Prompts(texts=said, default=default if default in said else None, files=files)


def read_max_length(
    folder: ModelFolder,
    *,
    reach: int | None = None,
    tried: Callable[[int], int] = lambda at_most: at_most,
    note: Callable[[str], None],
) -> tuple[int, tuple[str, ...]]:
    """Tokens that the model takes at most, and the files that say so.

    ``reach`` is how many its architecture says that it takes. ``tried`` says, where no file states it, how many of at most so many
    it takes when it is run.
    """
    positions = reach or _positions(folder.config)
    tokenizer = folder.optional(TOKENIZER_FILE)
    if tokenizer.get("truncation_side") == "left":
        raise UnsupportedModelError(
            f"{TOKENIZER_FILE} truncates long texts at the beginning (truncation_side), which bundles do not support",
            hint="remove it: edgepack then truncates long texts at the end",
        )
    for name, said in (
        (folder.transformer_file, folder.transformer.get("max_seq_length")),
        (TOKENIZER_FILE, tokenizer.get("model_max_length", tokenizer.get("max_len"))),
    ):
        if isinstance(said, bool) or not isinstance(said, int | float) or not 2 <= said < UNLIMITED:
            continue
        if positions is not None and said > positions:
            note(
                f"{name} allows {said:.0f} tokens, the model has {positions} positions: longer texts are truncated to that"
            )
            return positions, (name,)
        return int(said), (name,)
    if positions is None:
        positions = tried(FALLBACK_LENGTH)
        note(f"no maximum length is stated: texts are truncated to {positions} tokens")
    return positions, ()


def _positions(config: Mapping[str, Any]) -> int | None:
    positions = config.get("n_positions", config.get("max_position_embeddings"))
    if config.get("rotary_scaling_factor"):
        # Beyond these the frequencies depend on the longest text of a batch; up to here they do not.
        positions = config.get("max_trained_positions", positions)
    if isinstance(positions, bool) or not isinstance(positions, int) or positions < 2:
        return None
    if config.get("model_type") in _OFFSET_POSITIONS:
        padding = config.get("pad_token_id") if config["model_type"] != "mpnet" else MPNET_PADDING
        return positions - (padding if isinstance(padding, int) else 1) - 1
    return positions
