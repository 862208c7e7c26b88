"""How a component is refused that the native tokenizer does not have: by name."""

from edgepack.errors import UnsupportedModelError


def unsupported(part: str, name: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the native runner's tokenizer has no {part} {name}",
        hint="--target linux-x86, for Linux on x86-64, has every tokenizer of Hugging Face's library",
    )
