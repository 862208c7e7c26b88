"""Devices of an address scheme of their own, registered: ``edgepack verify BUNDLE --on acme:BOARD`` runs a bundle there."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack import api
from edgepack.api.axes import Transport


@dataclass(frozen=True, kw_only=True)
class AcmeBoard:
    """A board; here this machine itself. A real one has a client that takes a line: ``("acme-client", self.board, line)``."""

    board: str

    def words(self, line: str) -> Sequence[str | Path]:
        return ("sh", "-c", line)

    def close(self) -> None:
        pass


def open_board(address: str, *, context: api.BuildContext) -> Transport:
    """The board at ``acme:BOARD``. It need not answer: edgepack asks it, and says when it does not."""
    board = address.partition(":")[2]
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", board):
        raise api.UsageError(f"{address} names no board", hint="acme:board-1")
    return AcmeBoard(board=board)


def make() -> object:
    return open_board


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="device", name="acme", summary="our boards", make=make)]
