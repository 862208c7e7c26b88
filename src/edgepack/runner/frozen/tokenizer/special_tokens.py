"""Token ids that come from outside: checked, and with the model's special tokens around them."""

from ..base.errors import UsageError


def require_room(max_length: int, specials: int) -> None:
    """Raises ``UsageError`` where a pair of texts would lose one of the two."""
    if max_length < specials + 2:
        raise UsageError(
            f"--max-length {max_length} leaves no room for two texts beside the {specials} special tokens"
        )


def add_special_tokens(
    ids: list[int], special: tuple[list[int], list[int]], *, size: int, max_length: int
) -> tuple[list[int], list[int]]:
    """Token ids of a vocabulary of ``size`` with the special ones around them, if they lack these, and their types.

    Raises ``UsageError`` for ids that are none, and for too many.
    """
    if not ids or not 0 <= min(ids) <= max(ids) < size:
        raise UsageError(f"token ids must be from 0 to {size - 1}, one at least")
    before, after = special
    if ids[: len(before)] != before or ids[len(ids) - len(after) :] != after:
        ids = [*before, *ids, *after]
    if len(ids) > max_length:
        raise UsageError(f"{len(ids)} tokens with the special ones, {max_length} at most")
    return ids, [0] * len(ids)
