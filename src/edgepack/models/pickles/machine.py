"""A pickle read as plain data, by a program of its own that limits its memory and time before it looks at a byte.

``unpickled.py`` starts it; nothing of edgepack is imported here. Nothing that a pickle names is imported, called or made, and no value
of a pickle is a key or is compared: the result is lists, which JSON can hold.

| value | as |
|---|---|
| None, true, false, a number, a text | itself |
| bytes | ``["b", base64]`` |
| a tuple; a list or a set; a dictionary | ``["t", …]``; ``["l", …]``; ``["d", [key, value], …]`` |
| a name | ``["n", "module.name"]`` |
| what a name was called with, and the state it was given; a tensor's place | ``["m", "module.name", ["t", …], state]`` |

What is built is a tree of bounded depth and size in which all that is shared counts as often as it occurs, so that no walk over it
takes long. No list holds itself: what was fetched from the memo is not added to any more.
"""

import base64
import json
import pickletools
import re
import resource
import struct
import sys
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, BinaryIO

MEMORY, SECONDS = 1 << 30, 60
"""Bytes that this program may take, and seconds of a processor."""
STEPS = 5_000_000
"""Opcodes; a checkpoint of 20,000 tensors has 800,000."""
ITEMS, DEPTH, CONTENT = 1_000_000, 20, 100_000_000
"""Of what is built: values; containers in one another, of which SetFit's own head has 12; bytes of texts and arrays, of which a head of
a thousand labels for vectors of 4,096 numbers has 33 MB."""
LARGEST_LIST = 50_000_000
"""Bytes of a checkpoint's names and shapes; those of a thousand tensors are 100 kB."""
LONGEST_INTEGER, LARGEST_KEY = 16, 1 << 31
"""Bytes of a whole number; and the largest that is a key: of larger ones many may have one hash."""
IN_ONE_ANOTHER = 3
"""Pickles: a file, an array of texts or a tensor in it."""
TEXT_BYTES = 12
"""Of a character in JSON, at most."""

WRAPPER, ENCODE, STORAGE = (
    "joblib.numpy_pickle.NumpyArrayWrapper",
    "_codecs.encode",
    "torch.storage._load_from_bytes",
)
"""Names behind which something is read at once: numbers that follow in the file, bytes, a file of PyTorch's in bytes."""
DICTIONARY, DTYPE = "collections.OrderedDict", "numpy.dtype"
PLACE = "a tensor's place"
_LOCAL_HEADER = struct.Struct("<26xHH")
_ITEM = re.compile(r"([fiubU])(\d{1,7})")


class ForeignNameError(Exception):
    """A name that the reader does not know."""


class RefusedPickle(ValueError):  # noqa: N818 - an input, not a mistake
    """Refusal of a pickle that holds what no file of a model has."""


class Node:
    """A value and what it takes: values in it, bytes of texts and arrays, containers in one another."""

    __slots__ = ("content", "depth", "fetched", "items", "value")

    def __init__(self, value: Any, items: int = 1, content: int = 0, depth: int = 0) -> None:
        self.value, self.items, self.content, self.depth = value, items, content, depth
        self.fetched = False

    @property
    def kind(self) -> str:
        """Kind of a container or a name: its letter."""
        return str(self.value[0]) if type(self.value) is list else ""

    def take(self, parts: Sequence["Node"]) -> None:
        """Count what is put into it. Raises ``RefusedPickle`` where that is too much."""
        for part in parts:
            self.items += part.items
            self.content += part.content
            self.depth = max(self.depth, part.depth + 1)
        if self.items > ITEMS or self.content > CONTENT or self.depth > DEPTH:
            raise RefusedPickle("more, or deeper in one another, than any model has")


class Shared:
    """State that pickles in one another share."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)
        self.steps = self.content = 0
        self.keys: set[str] = set()
        """Of tensors' places."""

    def step(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise RefusedPickle("too many steps")

    def bytes(self, content: bytes) -> Node:
        self.content += len(content)
        if self.content > CONTENT:
            raise RefusedPickle("too many bytes")
        return Node(content, content=len(content))


class Reading:
    """One pickle, from where a stream stands to its end."""

    def __init__(self, stream: BinaryIO, shared: Shared, level: int = 0) -> None:
        if level >= IN_ONE_ANOTHER:
            raise RefusedPickle("pickles in one another")
        self.stream, self.shared, self.level = stream, shared, level
        self.stack: list[Node] = []
        self.marks: list[int] = []
        self.memo: dict[int, Node] = {}

    def read(self) -> Node:
        """Raises ``ForeignNameError``, ``RefusedPickle``, or what damaged bytes lead to."""
        for code, said, _ in pickletools.genops(self.stream):
            self.shared.step()
            if code.name == "STOP":
                break
            act = ACTS.get(code.name)
            if act is None:
                raise RefusedPickle(f"the opcode {code.name}")
            act(self, said)
        (made,) = self.stack
        return made

    def push(self, value: Any) -> None:
        if type(value) is int and value.bit_length() > 8 * LONGEST_INTEGER:
            raise RefusedPickle("a number of many digits")
        self.stack.append(Node(value))

    def push_text(self, text: str) -> None:
        self.stack.append(Node(text, content=len(text) if text.isascii() else TEXT_BYTES * len(text)))

    def push_bytes(self, content: bytes) -> None:
        self.stack.append(self.shared.bytes(content))

    def pop(self) -> Node:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise RefusedPickle("an empty stack")
        return self.stack.pop()

    def pop_marked(self) -> list[Node]:
        start = self.marks.pop()
        parts = self.stack[start:]
        del self.stack[start:]
        return parts

    def open_top(self, kinds: str) -> Node:
        """The value on top, which may still be added to."""
        top = self.pop()
        if not top.kind or top.kind not in kinds or top.fetched:
            raise RefusedPickle("something is put into what holds nothing")
        self.stack.append(top)
        return top

    def mark(self, _said: Any) -> None:
        self.marks.append(len(self.stack))

    def put(self, at: Any) -> None:
        top = self.pop()
        self.memo[len(self.memo) if at is None else at] = top
        self.stack.append(top)

    def get(self, at: Any) -> None:
        found = self.memo[at]
        found.fetched = True
        self.stack.append(found)

    def pop_last(self, count: int) -> list[Node]:
        return [self.pop() for _ in range(count)][::-1]

    def tuple_of(self, parts: Sequence[Node]) -> None:
        made = Node(["t", *(part.value for part in parts)])
        made.take(parts)
        self.stack.append(made)

    def append(self, parts: Sequence[Node]) -> None:
        top = self.open_top("l")
        top.take(parts)
        top.value.extend(part.value for part in parts)

    def set_items(self, parts: Sequence[Node]) -> None:
        top = self.open_top("d")
        top.take(parts)
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            if not is_key(key.value):
                raise RefusedPickle("a key that is no text and no number")
            top.value.append([key.value, value.value])

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise RefusedPickle("a name that is no text")
        if f"{module}.{name}" not in self.shared.names:
            raise ForeignNameError(f"{module}.{name}")
        self.push(["n", f"{module}.{name}"])

    def named_by_stack(self, _said: Any) -> None:
        name, module = self.pop(), self.pop()
        self.name(module.value, name.value)

    def call(self, _said: Any) -> None:
        """Write down what a name is called with."""
        given, name = self.pop(), self.pop()
        if name.kind != "n" or given.kind != "t":
            raise RefusedPickle("a call of what is no name")
        called, arguments = name.value[1], given.value[1:]
        if called == DICTIONARY and not arguments:
            self.push(["d"])
        elif called == ENCODE:
            self.push_bytes(encoded(*arguments))
        elif called == STORAGE:
            self.stack.append(self.storage(*arguments))
        else:
            self.made(called, given)

    def made(self, name: str, given: Node) -> None:
        made = Node(["m", name, given.value, None])
        made.take([given])
        self.stack.append(made)

    def set_state(self, _said: Any) -> None:
        state, top = self.pop(), self.open_top("md")
        plain = state.kind == "d" and all(type(key) is str for key, _ in state.value[1:])
        if top.kind == "d":
            # PyTorch's dictionaries of tensors have attributes, too, which nobody reads.
            if not plain:
                raise RefusedPickle("a state that is none")
            return
        if top.value[3] is not None or not (plain or state.kind == "t"):
            raise RefusedPickle("a state that is none")
        top.take([state])
        top.value[3] = state.value
        if top.value[1] == WRAPPER:
            content = self.array_behind(dict(state.value[1:]) if plain else {})
            top.take([content])
            top.value[3] = [*state.value, ["content", content.value]]

    def array_behind(self, said: dict[str, Any]) -> Node:
        """The numbers that follow joblib's description of an array."""
        kind, shape = said["dtype"], said["shape"]
        if kind[:2] != ["m", DTYPE] or shape[0] != "t":
            raise RefusedPickle("an array without a type")
        named = kind[2][1]
        if named in ("O", "O8"):
            return Reading(self.stream, self.shared, self.level + 1).read()
        found = _ITEM.fullmatch(named)
        if found is None:
            raise RefusedPickle(f"an array of {named}")
        size = int(found[2]) * (4 if found[1] == "U" else 1)
        for length in shape[1:]:
            if type(length) is not int or not 0 <= length <= CONTENT or size > CONTENT:
                raise RefusedPickle("an array of no shape")
            size *= length
        if "numpy_array_alignment_bytes" in said:
            self.stream.read(self.stream.read(1)[0])
        content = self.stream.read(min(size, CONTENT + 1))
        if len(content) != size:
            raise RefusedPickle("an array that is not all there")
        return self.shared.bytes(content)

    def storage(self, content: Any) -> Node:
        """The five pickles of PyTorch's older form of file, and the bytes behind them."""
        if type(content) is not bytes:
            raise RefusedPickle("no bytes")
        stream = BytesIO(content)
        try:
            parts = [Reading(stream, self.shared, self.level + 1).read() for _ in range(5)]
        except ForeignNameError as error:
            raise RefusedPickle(f"{error} in a tensor") from error
        parts.append(self.shared.bytes(stream.read()))
        made = Node(["m", STORAGE, ["t", *(part.value for part in parts)], None])
        made.take(parts)
        made.depth += 1
        return made

    def place(self, _said: Any) -> None:
        """A tensor's numbers, which lie elsewhere in the archive."""
        given = self.pop()
        if given.kind != "t" or given.value[1:2] != ["storage"] or len(given.value) < 4:
            raise RefusedPickle("no tensor's place")
        if type(given.value[3]) is str:
            self.shared.keys.add(given.value[3])
        self.made(PLACE, given)


def is_key(value: Any) -> bool:
    """Whether a dictionary of a model may have it as a key: a name, or a number as labels are."""
    return type(value) in (str, bool, float) or (type(value) is int and abs(value) < LARGEST_KEY)


def encoded(text: Any, encoding: Any) -> bytes:
    """Bytes, as Python 2's protocol writes them."""
    if type(text) is not str or encoding != "latin1":
        raise RefusedPickle("no bytes")
    return text.encode("latin1")


ACTS: dict[str, Callable[[Reading, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda at, said: None),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), Reading.push),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), Reading.push_text),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"), Reading.push_bytes),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), Reading.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), Reading.get),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), Reading.call),
    "NONE": lambda at, said: at.push(None),
    "NEWTRUE": lambda at, said: at.push(True),
    "NEWFALSE": lambda at, said: at.push(False),
    "MARK": Reading.mark,
    "EMPTY_TUPLE": lambda at, said: at.tuple_of(at.pop_last(0)),
    "TUPLE1": lambda at, said: at.tuple_of(at.pop_last(1)),
    "TUPLE2": lambda at, said: at.tuple_of(at.pop_last(2)),
    "TUPLE3": lambda at, said: at.tuple_of(at.pop_last(3)),
    "TUPLE": lambda at, said: at.tuple_of(at.pop_marked()),
    "EMPTY_LIST": lambda at, said: at.push(["l"]),
    "EMPTY_SET": lambda at, said: at.push(["l"]),
    "EMPTY_DICT": lambda at, said: at.push(["d"]),
    "APPEND": lambda at, said: at.append(at.pop_last(1)),
    "APPENDS": lambda at, said: at.append(at.pop_marked()),
    "ADDITEMS": lambda at, said: at.append(at.pop_marked()),
    "SETITEM": lambda at, said: at.set_items(at.pop_last(2)),
    "SETITEMS": lambda at, said: at.set_items(at.pop_marked()),
    "GLOBAL": lambda at, said: at.name(*said.split(" ", 1)),
    "STACK_GLOBAL": Reading.named_by_stack,
    "BUILD": Reading.set_state,
    "BINPERSID": Reading.place,
}
"""All that files of models need: those that write texts, sets that do not change, extensions and the like are not among them."""


def read_bare(stream: BinaryIO, names: Sequence[str]) -> dict[str, Any]:
    """A pickle that is a file."""
    shared = Shared(names)
    content = stream.read(CONTENT + 1)
    if len(content) > CONTENT:
        raise RefusedPickle("too large")
    return {"document": Reading(BytesIO(content), shared).read().value, "members": {}}


def read_archive(stream: BinaryIO, names: Sequence[str]) -> dict[str, Any]:
    """PyTorch's archive: its pickle, and where the members that it names begin, and their sizes."""
    shared = Shared(names)
    with zipfile.ZipFile(stream) as archive:
        members = {info.filename: info for info in archive.infolist()}
        named = next((name for name in members if name.endswith("data.pkl")), None)
        if named is None or members[named].file_size > LARGEST_LIST:
            raise RefusedPickle("no list of tensors")
        order = members.get(f"{named.removesuffix('data.pkl')}byteorder")
        if order is not None and (order.file_size > 16 or archive.read(order).strip() != b"little"):
            raise RefusedPickle("its numbers are not little-endian")
        document = Reading(BytesIO(archive.read(named)), shared).read().value
    places = {}
    for key in sorted(shared.keys):
        member = members.get(f"{named.removesuffix('data.pkl')}data/{key}")
        if member is not None and member.compress_type == zipfile.ZIP_STORED:
            stream.seek(member.header_offset)
            name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
            places[key] = member.header_offset + _LOCAL_HEADER.size + name + extra, member.file_size
    return {"document": document, "members": places}


def limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (least, least))


def as_json(content: bytes) -> list[str]:
    return ["b", base64.b64encode(content).decode()]


def answer(path: str, question: str) -> str:
    """Content of a file as JSON: ``document`` and ``members``; ``foreign``, a name; or ``refused``, a reason."""
    asked = json.loads(question)
    read = read_archive if asked["archive"] else read_bare
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib would take longer to import than the rest
            return json.dumps(read(stream, asked["names"]), default=as_json)
    except ForeignNameError as error:
        return json.dumps({"foreign": str(error)[:200]})
    except Exception as error:  # a damaged pickle or archive raises what its bytes lead to
        known = "ValueError" if isinstance(error, RefusedPickle) else type(error).__name__
        return json.dumps({"refused": f"{known}: {error}"[:200]})


def main() -> None:
    """Limit this program, then answer the question on standard input about the file that is named."""
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, MEMORY),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        limit(kind, most)
    sys.stdout.write(answer(sys.argv[1], sys.stdin.read()))


if __name__ == "__main__":
    main()
