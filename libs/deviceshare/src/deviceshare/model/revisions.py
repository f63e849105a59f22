"""Revisions (``resourceVersion``) of objects."""

_DIGITS = 20
"""Digits of 2**64."""


def revision_number(revision: str) -> int:
    """Return a revision as a number: the API server's are numbers that grow, and so are the local cluster's.

    0 for another text, and for more digits than a revision has. Source: Kubernetes API concepts, "Resource versions".
    """
    return int(revision) if revision.isdecimal() and len(revision) <= _DIGITS else 0
