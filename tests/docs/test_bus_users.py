"""docs/security.md and docs/bus.md say who may write and read what, as the permissions of the bus do."""

import re
from pathlib import Path

from deviceshare_bus.messages.permissions import BUS, SERVICES, USERS, account
from deviceshare_bus.messages.subjects import Stream

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str, heading: str, cells: int) -> list[list[str]]:
    """Return the rows of the first table under a heading."""
    text = (DOCS / page).read_text().partition(f"\n{heading}\n")[2].partition("\n#")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert all(len(row) == cells for row in found), found
    return found[2:]


def names(cell: str) -> set[str]:
    """Return what is in code font in a cell."""
    return set(re.findall(r"`([^`]+)`", cell))


def test_the_table_of_users() -> None:
    table = {row[0].strip("`"): row[2:] for row in rows("security.md", "## The bus", 5)}
    assert set(table) == set(USERS)
    for user, (writes, reads, beside) in table.items():
        rights = USERS[user]
        assert names(writes) == set(rights.writes.values()), user
        listed = {"all streams": set(Stream), "nothing": set()}
        streams = listed[reads] if reads in listed else {Stream(each) for each in reads.split(", ")}
        assert streams == set(rights.reads), user
        assert (f"answer `status.{user}`" in beside) == rights.serves_status, user
        assert re.findall(r"delete messages of (\w+)", beside) == list(rights.deletes), user
        assert ("request statuses" in beside) == rights.requests_status, user
        assert ("delete streams" in beside and "`ledger.>`" in beside) == rights.manages_streams, user


def test_the_accounts() -> None:
    text = (DOCS / "security.md").read_text().partition("are in the account `BUS`")[2].partition("which imports")[0]
    assert names(text) == {account(user) for user in USERS} - {BUS}
    assert {user for user in USERS if account(user) == BUS} == {user for user in USERS if USERS[user].writes}


def test_the_writers_of_the_streams() -> None:
    table = {row[0].strip("`"): (row[1].strip("`"), row[3]) for row in rows("bus.md", "## Streams", 5)}
    assert set(table) == set(Stream)
    for stream, (subjects, writer) in table.items():
        writers = {user for user, rights in USERS.items() if stream in rights.writes}
        if writer == "every service but metrics":
            assert writers == set(SERVICES) - {"metrics"}
        else:
            assert writers == {writer}
            assert USERS[writer].writes[Stream(stream)] == subjects
