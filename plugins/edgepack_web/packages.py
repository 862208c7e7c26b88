"""What comes from npm, pinned by npm's own digests."""

from pathlib import Path

from edgepack.api import BuildContext, Target
from edgepack.api.kit import fetch_sources
from edgepack_web.foundry.emscripten import emscripten
from edgepack_web.npm.package import npm_package
from edgepack_web.stock import onnxruntime_web
from edgepack_web.webgpu import webgpu_package

TOKENIZERS_VERSION = "0.2.0"
TOKENIZERS_INTEGRITY = (
    "sha512-LidMHe1FpcSYH4vcSjXooda34pC0M8m1gmDOv7SQi6Iv+ib1zX7J3sHBCC9/3FPCkn2k1b55FneVqMRxrr99pg=="
)
TOKENIZERS_FILES = ("dist/tokenizers.min.mjs", "LICENSE")


def tokenizers_library(context: BuildContext) -> Path:
    """The folder of @huggingface/tokenizers."""
    return npm_package(
        "@huggingface/tokenizers",
        TOKENIZERS_VERSION,
        integrity=TOKENIZERS_INTEGRITY,
        keep=TOKENIZERS_FILES,
        context=context,
    )


def fetch(target: Target, context: BuildContext) -> None:
    """Everything that a build may ask npm for, and what a reduced runtime is compiled from and with."""
    if target.options.get("runtime", "reduced") == "reduced":
        emscripten(context=context)
        fetch_sources(context=context)
    onnxruntime_web(context=context)
    tokenizers_library(context)
    if target.options.get("webgpu"):
        webgpu_package(context)
