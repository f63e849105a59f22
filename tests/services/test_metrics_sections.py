"""A text that is compressed at several places at once is one member of gzip, as others read it."""

import subprocess
import zlib

from deviceshare_metrics.sections import Piece, compressed
from hypothesis import example, given
from hypothesis import strategies as st

PIECES = st.lists(st.builds(Piece, st.sampled_from("abc"), st.binary(max_size=300)), max_size=30)


@given(PIECES)
@example([])
@example([Piece("a", b"x" * 100_000), Piece("b", b"x" * 70_000), Piece("a", b"xy" * 50_000)])
def test_sections_follow_each_other_in_one_member(pieces: list[Piece]) -> None:
    sections: dict[str, bytes] = {}
    for name, text in pieces:
        sections[name] = sections.get(name, b"") + text
    inflate = zlib.decompressobj(31)
    # zlib compares the checksum and the size at the end.
    assert inflate.decompress(compressed(pieces)) == b"".join(sections.values())
    assert inflate.eof
    assert not inflate.unused_data


def test_gzip_reads_it() -> None:
    text = compressed([Piece("a", b"one\n"), Piece("b", b"three\n"), Piece("a", b"two\n")])
    assert subprocess.run(["gzip", "-dc"], input=text, capture_output=True, check=True).stdout == b"one\ntwo\nthree\n"
