"""Pickles that a stranger could write: small, and made to take all time or memory, or to change what reads them."""

import io
import struct
import zipfile
from collections.abc import Mapping

LOGISTIC = b"csklearn.linear_model._logistic\nLogisticRegression\n"
PLACE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0" + b"0X\x03\0\0\0cpuK\x04tQ"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(" + PLACE + b"K\0K\x02K\x02\x86K\x02K\x01\x86\x89"
TENSOR += b"ccollections\nOrderedDict\n)RtR"
"""Of 2 · 2 numbers, as PyTorch writes it."""
FLOATS = b"cnumpy\ndtype\nX\x02\0\0\0f8\x89\x88\x87R"


def text(said: str) -> bytes:
    return b"X" + struct.pack("<I", len(said.encode())) + said.encode()


def whole(number: int) -> bytes:
    content = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content


def twice(levels: int, start: bytes = b")", both: bytes = b"\x86") -> bytes:
    """A tuple of one twice, of one twice, …: few bytes, and 2^levels values."""
    return start + b"".join(b"q\x01h\x01" + both for _ in range(levels))


def dictionary(key: bytes, value: bytes = b"K\x01") -> bytes:
    return b"\x80\x02}" + key + value + b"s."


def head(name: str, value: bytes, before: bytes = b"") -> bytes:
    """A classifier with an attribute."""
    return b"\x80\x02" + before + LOGISTIC + b")\x81}" + text(name) + value + b"sb."


def called(name: str, argument: bytes) -> bytes:
    return b"c" + name.encode() + b"\n" + argument + b"\x85R"


def alike(count: int) -> bytes:
    """A dictionary of numbers that all have one hash: each is compared with all before it."""
    prime = (1 << 61) - 1
    return b"\x80\x02}(" + b"".join(whole(prime * at) + b"N" for at in range(1, count)) + b"u."


def tensor(shape: bytes, strides: bytes) -> bytes:
    plain = TENSOR.replace(b"K\x02K\x02\x86K\x02K\x01\x86", shape + strides)
    assert plain != TENSOR
    return b"\x80\x02}" + text("w") + plain + b"s."


def wrapper(shape: bytes) -> bytes:
    """joblib's description of an array, behind which its numbers are said to follow."""
    said = b"}(" + text("shape") + shape + text("order") + text("C") + text("dtype") + FLOATS + b"u"
    return b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81" + said + b"b"


HUGE = whole(1 << 40)
BOMBS: Mapping[str, bytes] = {
    "a key of a tuple in itself": dictionary(twice(60)),
    "a key of a frozen set in itself": b"\x80\x04}"
    + twice(60, start=b"(\x91", both=b"\x86\x85\x91")
    + b"K\x01s.",
    "numbers of one hash": alike(200_000),
    "a name of a text that doubles": b"\x80\x02}" + text("a") + called("torch\ndevice", twice(60)) + b"s.",
    "a thousand of a thousand of a thousand …": dictionary(
        text("a"), b")" + (b"q\x01(" + b"h\x01" * 1000 + b"t") * 9
    ),
    "a hundred thousand in one another": dictionary(text("a"), b")" + b"\x85" * 100_000),
    "a list that holds itself": dictionary(text("a"), b"]q\x01h\x01a"),
    "a list that grows when it was put into another": dictionary(text("a"), b"]q\x01(h\x01K\x01eK\x01\x86"),
    "a number of a million digits": dictionary(b"\x8b" + struct.pack("<i", 500_000) + b"\x01" * 500_000),
    "a text that says it is of 2^62 bytes": b"\x80\x04}\x8d" + struct.pack("<Q", 1 << 62) + b"a.",
    "the highest number of the memo": b"\x80\x02}r\xff\xff\xff\xff" + b"j\xff\xff\xff\xff0.",
    "a frame of 2^62 bytes": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"}.",
    "a state for a class": b"\x80\x02ccollections\nOrderedDict\n}X\x01\0\0\0aK\x01sb.",
    "a tensor of 200,000 axes": tensor(b"(" + HUGE * 200_000 + b"t", b"(" + HUGE * 200_000 + b"t"),
    "a tensor of 2^80 numbers": tensor(HUGE + HUGE + b"\x86", HUGE + b"K\x01\x86"),
    "a tensor of other strides": tensor(b"K\x02K\x02\x86", b"K\x01\x85"),
    "a tensor behind the file": TENSOR.join((b"\x80\x02}" + text("w"), b"s.")).replace(
        b"QK\0", b"Q" + whole(1 << 61)
    ),
    "values left on the stack": b"\x80\x02" + b"}" * 1000 + b".",
    "marks without an end": b"\x80\x02" + b"(" * 100_000 + b".",
}
"""In a checkpoint's place."""

HEADS: Mapping[str, bytes] = {
    **{name: BOMBS[name] for name in BOMBS if "tensor" not in name},
    "a text that doubles": head("coef_", called("torch\ndevice", twice(60))),
    "a type of a name that doubles": head("coef_", called("numpy\ndtype", twice(60))),
    "a type's state that doubles": head(
        "coef_", FLOATS + b"(K\x03" + twice(60) + b"NNNK\x01K\x01K\0tb" + b"\x85"
    ),
    "a class's attribute": b"\x80\x02" + LOGISTIC + b"}" + text("kind") + text("SetFitHead") + b"sb.",
    "a function's attribute": b"\x80\x02c_codecs\nencode\n}" + text("__name__") + text("a") + b"sb.",
    "a state in two": b"\x80\x02" + LOGISTIC + b")\x81N}" + text("kind") + text("a") + b"s\x86b.",
    "a state of numbers": b"\x80\x02" + LOGISTIC + b")\x81}K\x01K\x01sb.",
    "an array of 2^120 numbers": head("coef_", wrapper(HUGE + HUGE + HUGE + b"\x87")),
    "an array of 100,000 axes": head("coef_", wrapper(b"(" + b"K\x01" * 100_000 + b"t")),
    "an array of 100,000 empty axes": head("coef_", wrapper(b"(" + b"K\0" * 100_000 + b"t")),
    "arrays of objects in one another": head("coef_", wrapper(b"K\x01\x85").replace(b"f8", b"O8")) * 200,
    "the same bytes encoded 100,000 times": head(
        "coef_",
        b"(" + b"c_codecs\nencode\nh\x01h\x02\x86R" * 20_000 + b"t",
        before=text("a" * 100_000) + b"q\x01" + text("latin1") + b"q\x02",
    ),
    "a file of PyTorch's in itself": head("coef_", b"ctorch.storage\n_load_from_bytes\nC\x04K\x01K.\x85R"),
}
"""In the place of a head."""


def archive(content: bytes) -> bytes:
    """PyTorch's form of file around a pickle."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        zipped.writestr("m/data.pkl", content)
        zipped.writestr("m/data/0", bytes(16))
    return made.getvalue()
