"""The table of the bind task's transitions in docs/architecture.md is that of the code."""

from collections.abc import Collection
from pathlib import Path

from deviceshare_binder.core.bind_task import IN_FLIGHT, State
from deviceshare_binder.core.bind_transitions import TRANSITIONS, impossible

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
HEADER = "| What happens | In state | Function | Next state |\n| --- | --- | --- | --- |\n"


def names(states: Collection[State]) -> str:
    """Return the names of states in the order of their definition; those in flight, if all of them, as one."""
    in_flight = ["in flight"] if set(states) >= IN_FLIGHT else []
    return ", ".join(
        [state for state in State if state in states and not (in_flight and state in IN_FLIGHT)] + in_flight
    )


def test_the_table_of_transitions_is_that_of_the_code() -> None:
    rows = [
        f"| {event} | {names(states)} | `{function.__name__}` | {names(leads_to) or 'the same'} |\n"
        for event, states, function, leads_to in TRANSITIONS
        if function is not impossible
    ]
    table = HEADER + "".join(rows)
    assert table + "\n" in PAGE, table
