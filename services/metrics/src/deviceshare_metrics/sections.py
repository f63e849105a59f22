"""A gzip file that is written at several places at once: text that belongs together is compressed as it arrives.

In Prometheus's format all series of a metric follow each other, while they are computed node by node.
"""

import zlib
from collections.abc import Iterable
from typing import NamedTuple

_LEVEL = 1
"""zlib's fastest level: the next ones need a multiple of the time, for a third of the bytes."""
_RAW = -15
"""zlib's window bits for deflate without header and checksum."""
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"
"""RFC 1952: deflate, no flags, no time, the fastest level, of an unknown system."""
_END = b"\x03\0"
"""RFC 1951: a last block that is empty."""
_POLYNOMIAL = 0xEDB88320


class Piece(NamedTuple):
    """Text that belongs to the end of a section. Sections follow each other in the order of their first pieces."""

    section: str
    text: bytes


class _Section:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(_LEVEL, wbits=_RAW)
        self._compressed = bytearray()
        self.checksum = 0
        self.size = 0

    def add(self, text: bytes) -> None:
        self.checksum = zlib.crc32(text, self.checksum)
        self.size += len(text)
        self._compressed += self._deflate.compress(text)

    def end(self) -> bytearray:
        """Return the compressed text, in whole bytes; what follows it does not refer to it."""
        self._compressed += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return self._compressed


def compressed(pieces: Iterable[Piece]) -> bytearray:
    """Return the text of all sections, as one member of gzip."""
    sections: dict[str, _Section] = {}
    for name, text in pieces:
        if (section := sections.get(name)) is None:
            section = sections[name] = _Section()
        section.add(text)
    found = bytearray(_HEADER)
    checksum = size = 0
    for name in list(sections):
        section = sections.pop(name)
        found += section.end()
        checksum = _appended(checksum, section.checksum, section.size)
        size += section.size
    found += _END + checksum.to_bytes(4, "little") + (size % (1 << 32)).to_bytes(4, "little")
    return found


def _appended(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of two texts together from those of each; ``size``: bytes of the second one.

    Source: zlib's crc32_combine. That of the first is multiplied by x to the power of the bits that follow it.
    """
    power, square, bits = 1 << 31, 1 << 30, 8 * size
    while bits:
        if bits & 1:
            power = _product(power, square)
        square = _product(square, square)
        bits >>= 1
    return _product(power, first) ^ second


def _product(left: int, right: int) -> int:
    """Return the product of two polynomials modulo that of CRC-32; the highest bit is the lowest power."""
    found = 0
    for bit in range(31, -1, -1):
        if left >> bit & 1:
            found ^= right
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return found
