"""Texts as they may be shown: what would change a terminal or hide and reorder a text is written as an escape.

Names, annotations, labels and reasons come from users and device plugins. Their control characters could make a
terminal show other lines than were written (CVE-2021-25743, of kubectl), and bidirectional characters change the order
in which a text is read (CVE-2021-42574).
"""

import json


def visible(text: str) -> str:
    r"""Return a text in one line: each character that is not printable is replaced by its escape in JSON.

    Not printable (``str.isprintable``) are control characters, among them line breaks, DEL and C1, format characters
    such as the bidirectional ones, separators other than the space, and unassigned ones. U+202E becomes ``\u202e``, a
    line break ``\n``.
    """
    if text.isprintable():
        return text
    return text.translate({ord(each): json.dumps(each)[1:-1] for each in set(text) if not each.isprintable()})


def visible_lines(text: str) -> str:
    """Return a text whose line breaks are its own, with the other characters as :func:`visible`.

    The value of a text in JSON stays the same: there only strings have such characters.
    """
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))


def shortened(names: list[str], most: int = 3) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more
