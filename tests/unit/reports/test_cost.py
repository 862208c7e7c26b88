"""Download costs: at the borders of the tiers, in either gigabyte, and from the user's own table."""

import math
import re
from pathlib import Path

import pytest

from edgepack.errors import UsageError
from edgepack.records.report import PriceList, Tier
from edgepack.reports.cost import Prices, amount, download_costs, load_prices

GB, GIB = 10**9, 2**30


def price_list(*tiers: tuple[float, float], gigabyte: int = GB) -> PriceList:
    return PriceList(
        name="cloud",
        dated="2026-05",
        currency="USD",
        gigabyte=gigabyte,
        tiers=tuple(Tier(up_to=up_to, price=price) for up_to, price in tiers),
    )


TIERED = price_list((100, 0.0), (1_000, 0.10), (math.inf, 0.05))


@pytest.mark.parametrize(
    ("gigabytes", "due"),
    [
        (0, 0.0),
        (99, 0.0),
        (100, 0.0),
        (101, 0.10),
        (1_000, 90.0),
        (1_001, 90.05),
        (2_000, 140.0),
    ],
)
def test_each_gigabyte_costs_what_its_own_tier_says(gigabytes: int, due: float) -> None:
    assert amount(TIERED, gigabytes * GB) == pytest.approx(due)


def test_a_byte_beyond_the_border_costs_a_byte_of_the_next_tier() -> None:
    at, beyond = amount(TIERED, 1_000 * GB), amount(TIERED, 1_000 * GB + 1)
    assert beyond - at == pytest.approx(0.05 / GB, rel=1e-2)


def test_a_gigabyte_is_what_the_provider_bills() -> None:
    assert amount(price_list((math.inf, 1.0), gigabyte=GIB), GIB) == pytest.approx(1.0)
    assert amount(price_list((math.inf, 1.0), gigabyte=GB), GIB) == pytest.approx(1.073741824)


def test_costs_are_reckoned_for_each_list_and_number_of_devices() -> None:
    flat = price_list((math.inf, 0.05))
    found = download_costs(20_000_000, Prices(lists=(TIERED, flat), devices=(1_000, 100_000)))
    assert [(cost.devices, cost.bytes_total) for cost in found] == [
        (1_000, 20 * GB),
        (100_000, 2_000 * GB),
    ] * 2
    assert [cost.amount for cost in found] == pytest.approx([0.0, 140.0, 1.0, 100.0])


def test_the_built_in_table_holds_several_clouds_and_a_flat_price() -> None:
    prices = load_prices()
    assert prices.devices == (1_000, 100_000, 1_000_000)
    names = " ".join(each.name for each in prices.lists)
    for cloud in ("AWS", "Google", "Azure", "Cloudflare R2", "Backblaze", "bunny", "flat"):
        assert cloud in names
    assert all(re.fullmatch(r"20\d\d-\d\d", each.dated) for each in prices.lists)
    r2 = next(each for each in prices.lists if "R2" in each.name)
    assert amount(r2, 10**15) == 0.0
    aws = next(each for each in prices.lists if "AWS" in each.name)
    assert amount(aws, 100 * GIB) == 0.0
    assert amount(aws, (100 + 10_240) * GIB) == pytest.approx(10_240 * 0.09)
    assert amount(aws, (100 + 51_200) * GIB) == pytest.approx(10_240 * 0.09 + 40_960 * 0.085)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


OWN = """
schema = 1
devices = [7]
[[provider]]
name = "our contract"
dated = "2026-11"
currency = "EUR"
tiers = [["more", 0.002]]
"""


def test_a_user_s_table_replaces_the_built_in_one(tmp_path: Path) -> None:
    prices = load_prices(write(tmp_path / "own.toml", OWN))
    (cost,) = download_costs(GB, prices)
    assert (cost.provider, cost.dated, cost.currency, cost.devices) == ("our contract", "2026-11", "EUR", 7)
    assert cost.amount == pytest.approx(0.014)


def test_what_a_table_need_not_say(tmp_path: Path) -> None:
    prices = load_prices(write(tmp_path / "own.toml", OWN.replace("devices = [7]", "")))
    assert prices.devices == (1_000, 100_000, 1_000_000)
    (each,) = prices.lists
    assert (each.gigabyte, each.service, each.source) == (GB, "", "")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema = 1", "schema = 3", "schema is 3, not 1"),
        ('currency = "EUR"', "", "currency is missing"),
        ('[["more", 0.002]]', "[[10, 0.002]]", 'end with ["more"'),
        ('[["more", 0.002]]', '[[10, 1], [5, 1], ["more", 1]]', "must ascend"),
        ('[["more", 0.002]]', "[]", "must ascend"),
        ('[["more", 0.002]]', '[[0, 1], ["more", 1]]', "must ascend"),
        ('[["more", 0.002]]', '[["more", -1]]', "below zero"),
        ('[["more", 0.002]]', '[["more", inf]]', "below zero or not a number"),
        ('[["more", 0.002]]', '[["more", nan]]', "below zero or not a number"),
        ('[["more", 0.002]]', '[["mor", 1]]', "could not convert"),
        ("devices = [7]", "devices = [0]", "above zero"),
        ('currency = "EUR"', 'currency = "EUR"\ngigabyte = 1000', "neither 1_000_000_000 nor"),
        ("schema = 1", "schema = ", "price table"),
    ],
)
def test_a_table_that_is_wrong_says_how(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in OWN
    path = write(tmp_path / "own.toml", OWN.replace(old, new))
    with pytest.raises(UsageError) as refused:
        load_prices(path)
    assert str(path) in refused.value.message
    assert words in refused.value.message


def test_a_table_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_prices(tmp_path / "nowhere.toml")
