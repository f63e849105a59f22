"""A text as a user or a device plugin could write it, to change a terminal or what a reader sees."""

TEXT = (
    "\x1b]0;owned\x07\x1b[2Aroot \r\x9b31m\u202eevil\u2066\x7f\u200b\u2028\x85end\n"
    'FAKED: a line \U000e0041\U0001f600 "q" \\ 名'
)
"""OSC and CSI sequences, also in C1, carriage return, bidi, DEL, invisible characters, line breaks, harmless ones."""


def harmless(shown: str) -> None:
    """Check that an output has no character of the text that is not printable, and no line that the text begins."""
    assert {each for each in shown if not each.isprintable()} <= {"\n"}
    assert [line for line in shown.split("\n") if line.strip().startswith("FAKED")] == []
