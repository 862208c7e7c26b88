"""What the host says to a device's shell; each shell has a module of its own."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class Shell(Protocol):
    """Lines for one kind of shell, and what their answers mean."""

    @property
    def windows(self) -> bool:
        """Whether paths and programs there are Windows's."""

    def line(self, command: str, token: str) -> str:
        """The line that runs a command and then writes ``TOKEN:CODE`` to its messages: without it, the device went away."""

    def describe(self) -> str:
        """A command that writes ``KEY=VALUE`` lines on the device."""

    def place(self, name: str, size: int) -> str:
        """A command that makes a folder of this name where so many bytes fit and programs run, and writes its path.

        Its exit code is ``NO_PLACE`` where there is none, ``NO_ROOM`` where there is too little room.
        """

    def unpack(self, folder: str) -> str:
        """A command that unpacks the tar on its standard input into the folder."""

    def digests(self, folder: str, names: Sequence[str]) -> Sequence[str]:
        """Commands that write the SHA-256 of these files, in any order."""

    def read_digests(self, said: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        """Name → SHA-256, of what such commands wrote; what is not understood is left out."""

    def read_back(self, folder: str) -> str:
        """A command that writes the folder as a tar."""

    def program(
        self, folder: str, words: Sequence[str], seconds: float, environment: Mapping[str, str] = NO_VARIABLES
    ) -> str:
        """A command that runs a program of the folder with these variables, and ends it after so many seconds if the device can."""

    def metered(self, command: str, energy: str) -> str:
        """A command that runs another and writes to its messages what that took: ``speed.read_meter`` reads it."""

    def remove(self, folder: str) -> str:
        """A command that ends what runs in the folder, and removes it."""


NO_PLACE, NO_ROOM = 90, 91
