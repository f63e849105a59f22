"""The subjects of each user of the bus, written out: what one can do follows from them alone.

`tests/security` shows on a real nats-server what they mean.
"""

import re
from collections import Counter
from itertools import chain

import pytest
from deviceshare_bus.messages.permissions import USERS, allowed, authorization

EVERYBODY = {
    "$JS.API.INFO",
    "$JS.API.STREAM.LIST",
    *(f"$JS.API.STREAM.INFO.{stream}" for stream in ("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN", "EVENT")),
}
STATUSES = {"status.inventory", "status.placement", "status.binder", "status.metrics"}
CREATION = {f"$JS.API.STREAM.CREATE.{stream}" for stream in ("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN", "EVENT")}
MANAGEMENT = {"$JS.API.STREAM.NAMES"} | {
    f"$JS.API.STREAM.{request}.{stream}"
    for request in ("UPDATE", "DELETE", "PURGE", "MSG.DELETE")
    for stream in ("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN", "EVENT")
}


def reading(*streams: str) -> set[str]:
    return {
        subject
        for stream in streams
        for subject in (
            f"$JS.API.STREAM.MSG.GET.{stream}", f"$JS.API.CONSUMER.CREATE.{stream}", f"$JS.FC.{stream}.>"
        )
    }  # fmt: skip


ALL = reading("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN", "EVENT")
SHARED = reading("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN")
PUBLISH: dict[str, set[str]] = {
    "inventory": {"cluster.>", "event.inventory", "_R_.>"} | reading("CLUSTER"),
    "placement": {"ledger.>", "explain.>", "event.placement", "_R_.>", "$JS.API.STREAM.MSG.DELETE.EXPLAIN"} | SHARED,
    "binder": {"outcome.>", "event.binder", "_R_.>"} | SHARED,
    "metrics": {"_R_.>"} | ALL,
    "setup": CREATION,
    "admin": ALL | STATUSES | CREATION | MANAGEMENT,
    "reader": ALL | STATUSES,
}
SUBSCRIBE: dict[str, set[str]] = {
    "inventory": {"_INBOX.inventory.>", "status.inventory"},
    "placement": {"_INBOX.placement.>", "status.placement"},
    "binder": {"_INBOX.binder.>", "status.binder"},
    "metrics": {"_INBOX.metrics.>", "status.metrics"},
    "setup": {"_INBOX.setup.>"},
    "admin": {"_INBOX.admin.>", "ledger.>"},
    "reader": {"_INBOX.reader.>"},
}
OUTSIDE = {"METRICS": "metrics", "SETUP": "setup", "ADMIN": "admin", "READER": "reader"}
"""The accounts of users that write nothing, and their users."""

TEXT = authorization({user: (f"KEY-OF-{user}", f"NEXT-KEY-OF-{user}") for user in USERS})
_ACCOUNT = re.compile(r"^  (\w+) \{\n(.*?)^  \}", re.MULTILINE | re.DOTALL)
ACCOUNTS = dict(_ACCOUNT.findall(TEXT))


def exports(kind: str, name: str) -> dict[str, set[str]]:
    """Return the accounts to which an account exports each subject, and that each is named once."""
    found = re.findall(rf'^ +\{{{kind}: "(\S+)".*?, accounts: \[(.*?)\]\}}$', ACCOUNTS[name], re.MULTILINE)
    listed = {subject: accounts.split(", ") for subject, accounts in found}
    assert len(listed) == len(found)
    assert all(len(set(accounts)) == len(accounts) for accounts in listed.values())
    return {subject: set(accounts) for subject, accounts in listed.items()}


def imports(kind: str, name: str) -> set[tuple[str, str]]:
    """Return the subjects that an account imports, each with the account that it comes from; no subject twice."""
    found = re.findall(rf'^ +\{{{kind}: \{{account: (\w+), subject: "(\S+)"\}}\}}$', ACCOUNTS[name], re.MULTILINE)
    assert max(Counter(subject for _, subject in found).values(), default=0) <= 1
    return set(found)


@pytest.mark.parametrize("user", USERS)
def test_a_user_may_publish_and_hear_these_subjects(user: str) -> None:
    publish, subscribe = allowed(user)
    assert (set(publish), set(subscribe)) == (EVERYBODY | PUBLISH[user], SUBSCRIBE[user])
    assert (len(publish), len(subscribe)) == (len(set(publish)), len(set(subscribe)))


@pytest.mark.parametrize("user", USERS)
def test_each_key_of_a_user_has_its_subjects_in_the_account_of_the_user(user: str) -> None:
    account = next((name for name, other in OUTSIDE.items() if other == user), "BUS")
    assert [name for name, text in ACCOUNTS.items() if f"KEY-OF-{user}" in text] == [account]
    found = re.findall(
        rf"^    # {user}\n    \{{\n      nkey: (\S+)\n      permissions: \{{\n"
        r"        publish: \{allow: \[(.*)\]\}\n        subscribe: \{allow: \[(.*)\]\}\n      \}\n    \}$",
        ACCOUNTS[account],
        re.MULTILINE,
    )
    lists = [", ".join(f'"{subject}"' for subject in subjects) for subjects in allowed(user)]
    assert found == [(f"KEY-OF-{user}", *lists), (f"NEXT-KEY-OF-{user}", *lists)]


def test_each_account_lists_exports_imports_and_users() -> None:
    outline = [line for line in TEXT.splitlines() if re.match(r" {0,4}[a-z\]A-Z}]", line) and line != "    }"]
    assert outline[:2] == ["authorization {timeout: 5}", "accounts {"]
    lists = [line for name in ("exports", "imports", "users") for line in (f"    {name}: [", "    ]")]
    streams = {"BUS": ["    jetstream: enabled"]}
    accounts = ([f"  {name} {{", *streams.get(name, []), *lists, "  }"] for name in ("BUS", *OUTSIDE))
    assert outline[2:] == [*chain.from_iterable(accounts), "}"]


@pytest.mark.parametrize("account", OUTSIDE)
def test_an_account_imports_what_its_user_may_ask_and_hear_in_others(account: str) -> None:
    user = OUTSIDE[account]
    requests = EVERYBODY | PUBLISH[user] - {"_R_.>", f"status.{user}"}
    elsewhere = {subject: "METRICS" if subject == "status.metrics" else "BUS" for subject in requests}
    assert imports("service", account) == {(other, subject) for subject, other in elsewhere.items()}
    # Who reads no stream gets no deliveries: answers come by the service.
    heard = {"admin": {"_INBOX.admin.>", "ledger.>"}, "setup": set[str]()}.get(user, {f"_INBOX.{user}.>"})
    assert imports("stream", account) == {("BUS", subject) for subject in heard}


def test_an_account_exports_what_others_import_and_nothing_else() -> None:
    assert imports("service", "BUS") == imports("stream", "BUS") == set()
    for kind, name in ((kind, name) for kind in ("service", "stream") for name in ACCOUNTS):
        importing: dict[str, set[str]] = {}
        for other, (source, subject) in chain.from_iterable(
            ((other, each) for each in imports(kind, other)) for other in OUTSIDE
        ):
            if source == name:
                importing.setdefault(subject, set()).add(other)
        assert exports(kind, name) == importing, (kind, name)


def test_a_status_alone_has_several_answers() -> None:
    several = re.findall(r'"(\S+)", response: stream', TEXT)
    assert sorted(several) == sorted(STATUSES)
    assert TEXT.count("response:") == len(STATUSES)
