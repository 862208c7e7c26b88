"""What downloads cost, by the price lists of clouds."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgepack.errors import UsageError
from edgepack.records.report import DownloadCost

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A step of a price list."""

    up_to: float
    """GB in a month up to which, from the tier below, this price holds; infinite for the last."""
    price: float
    """Of a GB, in the provider's currency."""


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """What one provider asks for traffic to the internet."""

    provider: str
    dated: str
    currency: str
    gigabyte: int
    """Bytes that the provider bills as one GB."""
    tiers: tuple[Tier, ...]
    """Ascending, the last without limit."""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """A price table: lists, and for how many devices to reckon."""

    lists: tuple[PriceList, ...]
    devices: tuple[int, ...]


def amount(prices: PriceList, bytes_total: int) -> float:
    """What so many bytes cost when they are sent within one month, each GB at the price of the tier it falls into."""
    gigabytes = bytes_total / prices.gigabyte
    below, due = 0.0, 0.0
    for tier in prices.tiers:
        due += max(0.0, min(gigabytes, tier.up_to) - below) * tier.price
        below = tier.up_to
    return due


def download_costs(archive_bytes: int, prices: Prices) -> tuple[DownloadCost, ...]:
    """The cost of one download a device, for each price list and number of devices."""
    return tuple(
        DownloadCost(
            provider=each.provider,
            dated=each.dated,
            currency=each.currency,
            devices=devices,
            bytes_total=archive_bytes * devices,
            amount=amount(each, archive_bytes * devices),
        )
        for each in prices.lists
        for devices in prices.devices
    )


def load_prices(path: Path | None = None) -> Prices:
    """A price table in TOML: the user's, or the built-in one. Raises ``UsageError`` that says what is wrong with it."""
    name = str(path or "prices.toml")
    try:
        text = (path or files("edgepack.report") / "prices.toml").read_text(encoding="utf-8")
        return _read(_parse(text))
    except OSError as error:
        raise UsageError(f"price table {name} cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"price table {name}: {reason}", hint="edgepack's own table, report/prices.toml, shows the form"
        ) from error


def _parse(text: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(text)
    return table


def _read(table: dict[str, Any]) -> Prices:
    if table.get("schema") != SCHEMA:
        raise ValueError(f"schema is {table.get('schema')}, not {SCHEMA}")
    devices = tuple(int(count) for count in table.get("devices", (1_000, 100_000, 1_000_000)))
    if not devices or min(devices) < 1:
        raise ValueError("devices must be numbers above zero")
    return Prices(lists=tuple(_price_list(provider) for provider in table["provider"]), devices=devices)


def _price_list(provider: dict[str, Any]) -> PriceList:
    name = str(provider["name"])
    gigabyte = provider.get("gigabyte", 1_000_000_000)
    if gigabyte not in (10**9, 2**30):
        raise ValueError(f"{name}: gigabyte is {gigabyte}, neither 1_000_000_000 nor 1_073_741_824")
    return PriceList(
        provider=name,
        dated=str(provider["dated"]),
        currency=str(provider["currency"]),
        gigabyte=gigabyte,
        tiers=_tiers(name, provider["tiers"]),
    )


def _tiers(name: str, rows: Sequence[Sequence[Any]]) -> tuple[Tier, ...]:
    tiers = tuple(
        Tier(up_to=math.inf if up_to == "more" else float(up_to), price=float(price)) for up_to, price in rows
    )
    limits = [tier.up_to for tier in tiers]
    if not tiers or limits[-1] != math.inf or limits != sorted(set(limits)) or limits[0] <= 0:
        raise ValueError(f'{name}: tiers must ascend and end with ["more", PRICE]')
    if any(not 0 <= tier.price < math.inf for tier in tiers):
        raise ValueError(f"{name}: a price is below zero or not a number")
    return tiers
