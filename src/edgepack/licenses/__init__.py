"""Licence texts that edgepack brings along, for what comes without one."""

from importlib.resources import files

_TEXTS = {
    "mit": ("mit", "MIT License\n\n"),
    "edgepack": ("mit", "MIT License\n\nCopyright (c) 2026 The edgepack authors\n\n"),
    "onnxruntime": ("mit", "MIT License\n\nCopyright (c) Microsoft Corporation\n\n"),
    "libgcc_s": ("gcc_runtime", ""),
    "libstdc++": ("gcc_runtime", ""),
    "tokenizers": (
        "apache-2.0",
        "tokenizers, Copyright the Hugging Face team. https://github.com/huggingface/tokenizers\n\n",
    ),
}
"""Component → the text that it shares with others, and what stands above it."""


def license_text(name: str) -> str | None:
    """The text for a component, or of a licence by its SPDX identifier, in letters of either case; ``None`` where there is none.

    Licences: ``MIT``, ``Apache-2.0``. Components: ``edgepack``, ``onnxruntime``, ``libgcc_s``, ``libstdc++``, ``libffi``, ``libz``,
    ``python``, ``tokenizers``.
    """
    name = name.lower()
    file, head = _TEXTS.get(name, (name, ""))
    path = files("edgepack.licenses") / f"{file}.txt"
    return head + path.read_text(encoding="utf-8") if path.is_file() else None
