#!/usr/bin/env python3
"""Write the digests of a release's images into the values of the chart: pin_images.py VALUES IMAGE CLI_IMAGE.

IMAGE and CLI_IMAGE are files with one line, NAME@sha256:DIGEST.
"""

import re
import sys
from pathlib import Path

_IMAGE = re.compile(r"^(?P<name>[^@\s]+)@(?P<digest>sha256:[0-9a-f]{64})$")


def pinned(values: str, section: str, image: str) -> str:
    """Return the text of values with the name and the digest of an image in a section.

    Raises ValueError if the image has no digest, or the section is not as expected.
    """
    given = _IMAGE.match(image.strip())
    if given is None:
        raise ValueError(f"{image!r} is not NAME@sha256:DIGEST")
    pattern = rf'(^{section}:\n(?:  .*\n)*?  repository: )\S+(\n(?:  .*\n)*?  digest: )""'
    text, count = re.subn(pattern, rf"\g<1>{given['name']}\g<2>{given['digest']}", values, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"the values have no section {section} with repository and digest")
    return text


def main() -> None:
    """Change the file."""
    path, image, cli = (Path(name) for name in sys.argv[1:])
    text = pinned(path.read_text(), "image", image.read_text())
    path.write_text(pinned(text, "cliImage", cli.read_text()))


if __name__ == "__main__":
    main()
