"""zstd's frames with an older file in front of them, as ``zstd --patch-from`` writes and reads them."""

from pathlib import Path
from typing import IO, Any, cast

LEVEL, QUICK = 19, 9
QUICKER = 100_000_000
"""Bytes above which the quicker level is taken, as for archives."""
THOROUGH = {"search_log": 3, "target_length": 32}
"""Of ``LEVEL``, beside an old file: a weight is where it was, or nowhere. The level's own search takes twice the time, and finds less to
0.4 % more (docs/decisions/fleets.md, 119)."""
ESTIMATE = {"hash_log": 24, "chain_log": 24, "search_log": 7}
"""Of ``QUICK``: a tenth of that time, and patches of weights are 4 to 10 % larger."""
SMALL = 1 << 23
"""Bytes of both files up to which nobody waits."""
LARGEST_WINDOW = 31
"""log2; what zstd reads on 64 bits."""


def compress(source: Path, destination: Path, *, old: Path | None = None, thorough: bool = True) -> bool:
    """Write a file's frame; with ``old`` it can be read only with that file. ``False``, and nothing written: too large for that.

    Without ``thorough`` a large one takes little time, and is somewhat larger.
    """
    import zstandard

    size = source.stat().st_size
    reach = size + (old.stat().st_size if old else 0)
    window = max(10, reach.bit_length())
    if window > LARGEST_WINDOW:
        if old is not None:
            return False
        window = LARGEST_WINDOW
    quick = reach > 2 * QUICKER or (reach > SMALL and not thorough)
    long = old is not None and SMALL < reach <= 2 * QUICKER
    search = {} if not long else ESTIMATE if quick else THOROUGH
    parameters = zstandard.ZstdCompressionParameters.from_level(
        QUICK if quick else LEVEL,
        **search,
        window_log=window,
        enable_ldm=old is not None,
        write_checksum=True,
        write_content_size=True,
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters, dict_data=_prefix(old))
    with source.open("rb") as content, destination.open("wb") as out:
        compressor.copy_stream(content, out, size=size)
    return True


def decompress(frame: IO[bytes], out: IO[bytes], *, old: Path | None = None, most: int) -> bool:
    """Write what a frame holds; whether it is one, and holds no more than ``most`` bytes."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(dict_data=_prefix(old), max_window_size=1 << LARGEST_WINDOW)
    left = most
    try:
        with decompressor.stream_reader(frame) as stream:
            while chunk := stream.read(1 << 20):
                left -= len(chunk)
                if left < 0:
                    return False
                out.write(chunk)
    except zstandard.ZstdError:
        return False
    return True


def _prefix(old: Path | None) -> Any:
    if old is None:
        return None
    import zstandard

    return zstandard.ZstdCompressionDict(
        cast(Any, old.read_bytes()), dict_type=zstandard.DICT_TYPE_RAWCONTENT
    )
