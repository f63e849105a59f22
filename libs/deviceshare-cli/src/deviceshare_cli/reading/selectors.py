"""Label selectors (``-l``), with the syntax of ``kubectl``.

Source: apimachinery pkg/labels/selector.go. ``a=b``, ``a==b``, ``a!=b``, ``a in (b,c)``, ``a notin (b,c)``, ``a`` and
``!a``, separated by commas.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from deviceshare_cli.errors import CommandError

_TERM = re.compile(
    r"\s*(?:(?P<set>[^\s,=!()]+)\s+(?P<in>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<key>[^\s,=!()]+)\s*(?P<equal>==?|!=)\s*(?P<value>[^\s,=!()]*)"
    r"|(?P<not>!)?\s*(?P<exists>[^\s,=!()]+))\s*(?:,|$)"
)


class Term(NamedTuple):
    """One requirement: the label's value is one of ``values`` (None: any value), or not if ``negated``."""

    key: str
    values: frozenset[str] | None
    negated: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement; a negated one is also met without the label."""
        found = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return found != self.negated


def parse_selector(text: str) -> tuple[Term, ...]:
    """Return the requirements of a selector. Raises CommandError."""
    terms, position = [], 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None or (found.end() == len(text) and text.rstrip().endswith(",")):
            raise CommandError(
                f"--selector {text!r} is not valid: expected KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY or !KEY"
            )
        terms.append(_term(found))
        position = found.end()
    return tuple(terms)


def _term(found: re.Match[str]) -> Term:
    if found["in"]:
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Term(found["set"], values, found["in"] == "notin")
    if found["equal"]:
        return Term(found["key"], frozenset({found["value"]}), found["equal"] == "!=")
    return Term(found["exists"], None, found["not"] is not None)
