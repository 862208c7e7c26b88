"""``--self-test``: every file of the bundle, and the vectors of texts, beside those that the build made."""

from __future__ import annotations

import json
import os

from ..base.bundle import COPY_AGAIN, Bundle
from ..base.errors import BundleError, SelfTestFailure
from ..model.embedder import Embedder, cosine
from .load import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any


def run(bundle: Bundle, options: Namespace) -> dict[str, Any]:
    """Compare every file with its SHA-256 and the golden texts' vectors with those that the build made.

    Raises ``BundleError`` for a damaged file, ``SelfTestFailure`` for a vector that is too far off.
    """
    files = bundle.check_contents()
    read_golden(os.path.join(bundle.directory, bundle.value("golden")))
    embedder = load(bundle, options)
    result = {"files": files, **compare_golden(bundle, embedder)}
    embedder.finish()
    return result


def compare_golden(bundle: Bundle, embedder: Embedder) -> dict[str, Any]:
    """The golden texts' vectors of a loaded model beside those that the build made. Raises ``SelfTestFailure``."""
    golden = read_golden(os.path.join(bundle.directory, bundle.value("golden")))
    cosines = []
    for text, expected in zip(golden["texts"], golden["vectors"], strict=True):
        (vector,) = embedder.embed([text])
        cosines.append(cosine(vector, expected))
        if not cosines[-1] >= golden["tolerance"]:
            raise SelfTestFailure(
                f"self-test failed: the vector of text {len(cosines)} has cosine {cosines[-1]:.6f} to the "
                f"golden vector, below {golden['tolerance']}",
                "this device computes differently; please report it with the output of --info",
            )
    return {
        "texts": len(cosines),
        "min_cosine": min(cosines),
        "tolerance": golden["tolerance"],
        **embedder.model.about(),
    }


def read_golden(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            golden: dict[str, Any] = json.loads(stream.read())
        if not golden["texts"] or len(golden["texts"]) != len(golden["vectors"]):
            raise ValueError("it must have one vector per text, and at least one")
        golden["tolerance"] = float(golden["tolerance"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path} is damaged: {error}", COPY_AGAIN) from error
    return golden


def text_of(result: dict[str, Any]) -> str:
    on = f" on {result['provider']}" if "provider" in result else ""
    device = f" ({result['device']})" if "device" in result else ""
    return (
        f"self-test passed{on}{device}: {result['files']} files intact, {result['texts']} texts, "
        f"lowest cosine {result['min_cosine']:.6f} (at least {result['tolerance']})\n"
    )
