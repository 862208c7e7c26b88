"""The workers do what they are given, and an address where nobody is, is refused."""

import pytest
from edgepack_acme import start

from edgepack import api


def test_it_works() -> None:
    with start(None, 1) as executor:
        assert executor.submit(sum, (1, 2)).result(timeout=300) == 3


def test_an_address_is_refused() -> None:
    with pytest.raises(api.UsageError, match="no scheduler"), start("nowhere:1", None):
        pass
