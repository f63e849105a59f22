"""Labels and annotations of a pod, as far as facts keep them (:mod:`.bounds`)."""

from collections.abc import Iterable

from deviceshare.objects.bounds import MAX_CHARACTERS, cut
from deviceshare.objects.pod_request import annotations_read
from deviceshare.objects.problems import Problems

MAX_LABELS = 256
"""Labels of a pod or a namespace."""
MAX_ENTRIES = 1024
"""Entries of the annotations of a pod that device families read, such as ids of cards, all together."""
ANNOTATION_BYTES = 1 << 16
"""Characters of these annotations, all together."""
_SEPARATORS = ",;:"


def bounded_labels(labels: dict[str, str] | None, problems: Problems) -> dict[str, str]:
    """Return labels; of too many the first ones by name, and a problem."""
    found: dict[str, str] = cut(labels or {}, MAX_LABELS, "metadata.labels", problems)
    return found


def bounded_annotations(annotations: dict[str, str] | None, names: Iterable[str], problems: Problems) -> dict[str, str]:
    """Return annotations without those that are read and too long, which are problems.

    ``names``: those whose value is a name. The devices of bound pods count up to their requests.
    """
    if not annotations or max(map(len, annotations.values())) <= MAX_CHARACTERS:
        return annotations or {}
    kept = dict(annotations)
    for name in names:
        if len(value := kept.get(name, "")) > MAX_CHARACTERS:
            problems.add(f"metadata.annotations[{name}]", value, f"at most {MAX_CHARACTERS} characters")
            del kept[name]
    read = dict(annotations_read(kept))
    entries = {name: 1 + sum(map(value.count, _SEPARATORS)) for name, value in read.items()}
    if sum(entries.values()) > MAX_ENTRIES or sum(map(len, read.values())) > ANNOTATION_BYTES:
        largest = max(read, key=lambda name: len(read[name]))
        limits = f"at most {MAX_ENTRIES} entries and {ANNOTATION_BYTES} characters in all that device families read"
        shown = f"{entries[largest]} entries in {len(read[largest])} characters: {read[largest]}"
        problems.add(f"metadata.annotations[{largest}]", shown, limits)
        for name in read:
            del kept[name]
    return kept
