"""A device that is open: lines are run there, what it answers is bounded, and that it went away is noticed."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgepack import tools
from edgepack.context import BuildContext, perhaps_broken
from edgepack.device.command import Command
from edgepack.device.posix import Posix
from edgepack.device.shell import Shell
from edgepack.device.windows import Windows
from edgepack.errors import DeviceError, UsageError
from edgepack.plugins.spec import NAME, Transport
from edgepack.terminal_text import did_you_mean, foreign

AXIS = "device"
SECONDS, MOST = 60, 1 << 20
"""For a line that does little, and bytes of its answer."""
PROBE = "echo edgepack:%OS%:"
"""What cmd.exe, and nothing else, answers with the system's name."""
LONGEST = 300
"""Letters of a device's words in a message."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A device as it was named: ``[NAME=]SCHEME:REST``."""

    id: str
    """What it is called in tables and records: the name, or the address without its user."""
    scheme: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of a command line that ran to its end."""

    code: int
    output: bytes
    messages: str

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")

    @property
    def last_words(self) -> str:
        """The last line of its messages, to stand in a line of ours."""
        return last_words(self.messages)


@dataclass(frozen=True, kw_only=True)
class Session:
    """A device that answered."""

    at: Address
    transport: Transport
    shell: Shell

    def ask(
        self,
        command: str,
        doing: str,
        *,
        input: Path | bytes = b"",
        seconds: float = SECONDS,
        most: int = MOST,
    ) -> Answer:
        """Run a command of the device's shell to its end. Raises ``DeviceError`` where there is none; ``doing`` says what was done then."""
        token = f"edgepack-{secrets.token_hex(8)}"
        words = self.transport.words(self.shell.line(command, token))
        done = tools.exchange(words, input=input, seconds=seconds, most=most)
        messages = done.messages.decode("utf-8", "replace")
        if done.stopped == "time":
            raise DeviceError(
                f"{self.at.id} did not answer within {seconds:.0f} s while {doing}",
                hint="try again when it has less to do",
            )
        if done.stopped == "output":
            raise DeviceError(f"{self.at.id} wrote more than {most >> 10:,} KiB while {doing}")
        ends = re.findall(rf"{token}:(\d{{1,10}})\s*$", messages, re.MULTILINE)
        if not ends:
            said = last_words(messages)
            raise DeviceError(
                f"{self.at.id} went away while {doing}{f': {said}' if said else ''}",
                hint="what was sent may still lie there: its name begins with edgepack-",
            )
        messages = re.sub(rf"{token}:\d+\s*", "", messages)
        return Answer(code=int(ends[-1]), output=done.output, messages=messages)


def last_words(messages: str) -> str:
    """The last line of messages, as a stranger's."""
    lines = [line.strip() for line in messages[-4000:].splitlines() if line.strip()]
    return foreign(lines[-1][:LONGEST]) if lines else ""


def parse_address(said: str) -> Address:
    """The device that ``--on`` names. Raises ``UsageError``."""
    before, _, rest = said.partition("=")
    name = before if rest and NAME.fullmatch(before) else ""
    address = rest if name else said
    scheme, colon, there = address.partition(":")
    if not colon or not there or not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        raise UsageError(
            f"{said!r} names no device",
            hint="ssh://[USER@]HOST[:PORT], adb:SERIAL or exec:COMMAND; NAME= before it gives it a name",
        )
    plain = re.sub(r"^([a-z][a-z0-9+.-]*://)[^/]*@", r"\1", address)
    return Address(id=name or plain, scheme=scheme, address=address)


@contextmanager
def open_session(at: Address, *, context: BuildContext) -> Iterator[Session]:
    """A device that answers, until the block ends. Raises ``UsageError`` and ``DeviceError``."""
    known = context.extensions(AXIS)
    if at.scheme not in known:
        raise UsageError(
            f"nothing reaches a device by {at.scheme}:{did_you_mean(at.scheme, known)}",
            hint=f"known are {', '.join(f'{name}:' for name in known)}{perhaps_broken(known)}",
        )
    transport: Transport = known[at.scheme].make()(at.address, context=context)
    try:
        yield _session_of(at, transport)
    finally:
        transport.close()


def _session_of(at: Address, transport: Transport) -> Session:
    try:
        return Session(at=at, transport=transport, shell=_shell_of(at, transport))
    except DeviceError:
        if not isinstance(transport, Command) or not transport.emulates:
            raise
    shell = Posix(under=transport.command, machine=transport.emulates)
    return Session(at=at, transport=Command(command=()), shell=shell)


def _shell_of(at: Address, transport: Transport) -> Shell:
    """By what it makes of a line that each shell reads in another way."""
    done = tools.exchange(transport.words(PROBE), seconds=SECONDS, most=MOST)
    said = done.output.decode("utf-8", "replace")
    if "edgepack:Windows_NT:" in said:
        return Windows()
    if "edgepack:%OS%:" not in said:
        why = last_words(done.messages.decode("utf-8", "replace"))
        if done.stopped == "time":
            why = f"no answer within {SECONDS} s"
        raise DeviceError(
            f"{at.id} cannot be reached{f': {why}' if why else ''}",
            hint=_hint(at),
        )
    posix = tools.exchange(transport.words("sh -c 'echo edgepack'"), seconds=SECONDS, most=MOST)
    return Posix() if b"edgepack" in posix.output else Windows(powershell=True)


def _hint(at: Address) -> str:
    if at.scheme == "ssh":
        return f"`ssh {at.address} true` has to work without a question: known host, key in the agent or in ~/.ssh/config"
    if at.scheme == "adb":
        return "`adb devices` has to list it as `device`"
    return "the command has to run `sh -c LINE` there, with its input and output: docker exec wants -i"
