"""The list is whole: what a report reads of it."""

import tomllib

from edgepack_acme import make


def test_the_last_tier_has_no_limit() -> None:
    for provider in tomllib.loads(make().read_text(encoding="utf-8"))["provider"]:
        assert provider["tiers"][-1][0] == "more"
