"""The races of one replica, each a text of events and the commands that follow (see support/history_text.py).

``pytest tests/placement --rewrite-histories`` writes the output of the core into the files.
"""

from pathlib import Path

import pytest
from support.history_text import play

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.txt"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_history(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    found = play(text)
    if request.config.getoption("--rewrite-histories"):
        path.write_text(found)
    else:
        assert found == text


def test_a_command_that_cannot_be_run_is_reported_with_its_line() -> None:
    with pytest.raises(ValueError, match="line 2: 'ack 7'"):
        play("start\nack 7\n")
