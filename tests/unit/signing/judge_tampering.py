"""What model_signing says of bundles that were changed after they were signed."""

import pytest
from tests.unit.signing.judge_signatures import judge
from tests.unit.signing.test_tampering import EVERYWHERE, Place, made, place, pytestmark

__all__ = ["made", "place", "pytestmark"]


def test_as_it_was_signed_it_is_right(place: Place) -> None:
    judge(place.folder, place.made / "key.pub")


@pytest.mark.parametrize("change", EVERYWHERE)
def test_a_change_is_caught(place: Place, change: str) -> None:
    EVERYWHERE[change](place)
    with pytest.raises((ValueError, OSError, LookupError, Exception)):
        judge(place.folder, place.made / "key.pub")
