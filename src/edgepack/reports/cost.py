"""What downloads cost, by the price lists of clouds."""

import math
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import PluginError, UsageError
from edgepack.plugins.blame import blamed_on
from edgepack.records.report import DownloadCost, PriceList, Tier
from edgepack.toml_schema import Malformed, check_value, load_toml, read_table

SCHEMA = 1
AXIS = "prices"


@dataclass(frozen=True, kw_only=True)
class Prices:
    """A price table: lists, and for how many devices to reckon."""

    lists: tuple[PriceList, ...]
    devices: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class _File:
    """A price table, key by key."""

    schema: int
    provider: tuple[PriceList, ...]
    devices: tuple[int, ...] = (1_000, 100_000, 1_000_000)


def amount(prices: PriceList, bytes_total: int) -> float:
    """Price of so many bytes, sent within one month, each GB at the price of the tier it falls into."""
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
            provider=each.name,
            dated=each.dated,
            currency=each.currency,
            devices=devices,
            bytes_total=archive_bytes * devices,
            amount=amount(each, archive_bytes * devices),
        )
        for each in prices.lists
        for devices in prices.devices
    )


def prices_of(path: Path | None, context: BuildContext) -> Prices:
    """The user's own table, or else all that edgepack and plugins bring together, for as many devices as edgepack's own says.

    Raises ``UsageError`` for what is wrong with the user's, ``PluginError`` for what is wrong with a plugin's.
    """
    if path is not None:
        return load_prices(path)
    tables: list[Prices] = []
    for name, found in context.extensions(AXIS).items():
        made = found.make()
        if not (callable(getattr(made, "read_text", None)) and callable(getattr(made, "is_file", None))):
            raise PluginError(
                f"plugin {found.plugin}: make of prices {name} returned {repr(made)[:80]}, expected a TOML file",
                hint='e.g. make=lambda: files(__name__) / "contract.toml"',
            )
        try:
            with blamed_on(found.plugin, f"prices {name}"):
                table = load_prices(made)
        except UsageError as error:
            raise PluginError(f"plugin {found.plugin}: {error.message}", hint=error.hint) from error
        known = {each.name for one in tables for each in one.lists}
        if twice := sorted(known & {each.name for each in table.lists}):
            raise PluginError(
                f"plugin {found.plugin}: prices {name}: provider {twice[0]} is in another list already"
            )
        tables.append(table)
    return Prices(lists=tuple(each for one in tables for each in one.lists), devices=tables[0].devices)


def load_prices(path: Traversable | None = None) -> Prices:
    """A price table in TOML: the user's, or the built-in one. Raises ``UsageError`` that says what is wrong with it."""
    name = str(path or "prices.toml")
    try:
        table = load_toml(path or files("edgepack.reports") / "prices.toml")
        if table.get("schema") != SCHEMA:
            raise Malformed(f"schema is {table.get('schema')}, not {SCHEMA}")
        read = read_table(_File, table, how=_HOW)
    except OSError as error:
        raise UsageError(f"price table {name} cannot be read: {error.strerror}") from error
    except Malformed as error:
        raise UsageError(
            f"price table {name}: {error}",
            hint=error.hint or "edgepack's own table, report/prices.toml, shows the form",
        ) from error
    return Prices(lists=read.provider, devices=read.devices)


def _devices(counts: object) -> tuple[int, ...]:
    devices: tuple[int, ...] = check_value(tuple[int, ...], counts)
    if not devices or min(devices) < 1:
        raise Malformed("must be numbers above zero")
    return devices


def _gigabyte(size: object) -> int:
    if size not in (10**9, 2**30):
        raise Malformed(f"is {size}, neither 1_000_000_000 nor 1_073_741_824")
    return int(size)


def _tiers(rows: object) -> tuple[Tier, ...]:
    try:
        tiers = tuple(
            Tier(up_to=math.inf if up_to == "more" else float(up_to), price=float(price))
            for up_to, price in check_value(list, rows)
        )
    except TypeError as error:
        raise ValueError(str(error)) from error
    limits = [tier.up_to for tier in tiers]
    if not tiers or limits[-1] != math.inf or limits != sorted(set(limits)) or limits[0] <= 0:
        raise Malformed('must ascend and end with ["more", PRICE]')
    if any(not 0 <= tier.price < math.inf for tier in tiers):
        raise ValueError("a price is below zero or not a number")
    return tiers


_HOW = {"devices": _devices, "provider.gigabyte": _gigabyte, "provider.tiers": _tiers}
