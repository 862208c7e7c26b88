"""Opening the bundle that the program is to work with."""

from __future__ import annotations

import os

from .built_for import BUILT_FOR
from .bundle import Bundle


def open_bundle(directory: str, *, require_signature: str | None = None) -> Bundle:
    """The bundle that the program is to work with, checked as its target asked for.

    A key's file that was named, as ``require_signature`` or in the environment, has to be one, and an empty name is none; what the program was built for is
    asked for beside it. Raises ``UsageError`` for no key, or where the program was built without what checks signatures.
    """
    bundle = Bundle(directory)
    named = require_signature if require_signature is not None else os.environ.get("EMBED_REQUIRE_SIGNATURE")
    if named is not None or BUILT_FOR:
        from .signature import check_signature, read_key

        keys = [BUILT_FOR] if BUILT_FOR else []
        for key in (*keys, *([read_key(named)] if named is not None else [])):
            check_signature(bundle, key)
    elif bundle.check_at_start:
        bundle.check_data()
    return bundle
