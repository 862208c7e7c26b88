"""A vocabulary as a trie in level order: children lie side by side, so that a node needs no more than where they begin."""

import struct
from array import array
from collections.abc import Mapping

BLOCK = 64
"""Nodes that share one base, and one count of the values before them."""


def build_trie(entries: Mapping[bytes, int]) -> bytes:
    """Bytes → number, for ``Trie`` in table.h. No key may be empty.

    Node 0 is the root. ``first(n)`` is the first child of node n and ``first(n + 1)`` ends its children, whose labels
    are sorted. A bit for each node says whether a key ends there; its number is in the order of the nodes.
    """
    keys = sorted(entries)
    if keys and not keys[0]:
        raise ValueError("a key must not be empty")
    labels = bytearray(b"\0")
    first: list[int] = []
    ends: list[int] = []
    numbers: list[int] = []
    queue: list[tuple[int, int]] = [(0, len(keys))]
    depth, level_end, node = 0, 1, 0
    while node < len(queue):
        if node == level_end:
            depth, level_end = depth + 1, len(queue)
        low, high = queue[node]
        first.append(len(labels))
        if low < high and len(keys[low]) == depth:
            ends.append(node)
            numbers.append(entries[keys[low]])
            low += 1
        while low < high:
            label = keys[low][depth]
            start = low
            while low < high and keys[low][depth] == label:
                low += 1
            labels.append(label)
            queue.append((start, low))
        node += 1
    return _packed(bytes(labels), [*first, len(labels)], ends, numbers)


def _packed(labels: bytes, first: list[int], ends: list[int], numbers: list[int]) -> bytes:
    nodes = len(labels)
    base = first[::BLOCK]
    offsets = array("H", (at - base[node // BLOCK] for node, at in enumerate(first)))
    bits = [0] * (nodes // BLOCK + 1)
    for node in ends:
        bits[node // BLOCK] |= 1 << node % BLOCK
    ranks, count = [], 0
    for word in bits:
        ranks.append(count)
        count += word.bit_count()
    parts = [
        struct.pack("<II", nodes, len(numbers)),
        struct.pack(f"<{len(bits)}Q", *bits),
        struct.pack(f"<{len(base)}I", *base),
        struct.pack(f"<{len(ranks)}I", *ranks),
        struct.pack(f"<{len(numbers)}I", *numbers),
        struct.pack(f"<{len(offsets)}H", *offsets),
        labels,
    ]
    return b"".join(part + bytes(-len(part) % 8) for part in parts)
