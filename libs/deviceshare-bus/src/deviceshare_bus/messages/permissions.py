"""Who may do what on the bus: one table, and the subjects that nats-server must allow each user because of it.

nats-server compares the subject of every message that a client publishes, and of every subscription, with the lists of
its user; requests to JetStream are messages under ``$JS.API``. It does not look at where an answer goes: users that
write nothing have accounts of their own, see :func:`account` and docs/security.md, "The bus".

The table says the same as the table of streams in docs/bus.md.
"""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare_bus.messages.subjects import Stream, status

INBOXES = "_INBOX"
"""The first token of the subjects of answers and deliveries; each user hears only those with its name as second."""


class Rights(NamedTuple):
    """What a user of the bus may do."""

    writes: Mapping[Stream, str] = {}
    """The subjects of the messages that it may write, by stream."""
    reads: tuple[Stream, ...] = ()
    """The streams that it may read."""
    deletes: tuple[Stream, ...] = ()
    """The streams whose messages it may delete, all of which it may replace as well."""
    serves_status: bool = False
    """Whether it answers requests for its status."""
    requests_status: bool = False
    """Whether it may ask the services for their status."""
    creates_streams: bool = False
    """Whether it may create the streams; existing ones do not change by that."""
    manages_streams: bool = False
    """Whether it may also change, empty and delete the streams, and hear what is written to LEDGER: it can let a stream
    copy any message to any subject."""


SERVICES: dict[str, Rights] = {
    "inventory": Rights(
        writes={Stream.CLUSTER: "cluster.>", Stream.EVENT: "event.inventory"},
        reads=(Stream.CLUSTER,),
        serves_status=True,
    ),
    "placement": Rights(
        writes={Stream.LEDGER: "ledger.>", Stream.EXPLAIN: "explain.>", Stream.EVENT: "event.placement"},
        # EXPLAIN: messages of pods that were deleted while placement did not run are written again, to expire.
        reads=(Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME, Stream.EXPLAIN),
        # The oldest explanations of deleted objects, when there are too many.
        deletes=(Stream.EXPLAIN,),
        serves_status=True,
    ),
    "binder": Rights(
        writes={Stream.OUTCOME: "outcome.>", Stream.EVENT: "event.binder"},
        reads=(Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME, Stream.EXPLAIN),
        serves_status=True,
    ),
    "metrics": Rights(reads=tuple(Stream), serves_status=True),
}
"""The services; each connects as the user of its name."""

USERS: dict[str, Rights] = {
    **SERVICES,
    "setup": Rights(creates_streams=True),
    "admin": Rights(reads=tuple(Stream), requests_status=True, creates_streams=True, manages_streams=True),
    "reader": Rights(reads=tuple(Stream), requests_status=True),
}
"""All users: the services, the set-up step, administrators, and people who read (the commands of the CLI)."""

MANAGING = ("UPDATE", "DELETE", "PURGE", "MSG.DELETE")
"""Requests about one stream that change it. With them every message can be forged: no pod has the right to them, but to
delete messages (:attr:`Rights.deletes`)."""


BUS = "BUS"
"""The account of nats-server that holds the streams."""
FORWARDED = "_R_"
"""The first token of the subjects to which nats-server lets a request of another account be answered."""


class Allowed(NamedTuple):
    """The subjects that a user may publish and subscribe to; all others are denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox(user: str) -> str:
    """Return the prefix of the subjects on which a user hears answers."""
    return f"{INBOXES}.{user}"


def account(user: str) -> str:
    """Return the account of a user: that of the streams if it writes to them, else one of its own.

    nats-server sends an answer to any subject that a request names. A request of another account it lets be answered
    to a subject of its own choice, and passes the answer on within the other account, where there are no streams. So a
    user that writes nothing cannot have an answer written to a stream either.
    """
    return BUS if USERS[user].writes else user.upper()


def allowed(user: str) -> Allowed:
    """Return the subjects of a user of :data:`USERS`."""
    rights = USERS[user]
    publish, subscribe = [*rights.writes.values(), *_requests(rights)], [f"{inbox(user)}.>"]
    if rights.serves_status:
        # Who asks is in another account, and hears nothing of this one but answers.
        publish.append(f"{FORWARDED}.>")
        subscribe.append(status(user))
    if rights.requests_status:
        publish += _statuses()
    if rights.manages_streams:
        subscribe.append("ledger.>")
    return Allowed(tuple(publish), tuple(subscribe))


def authorization(keys: Mapping[str, tuple[str, ...]]) -> str:
    """Return the accounts and users of nats-server's configuration.

    ``keys``: the public nkeys of each user: more than one while keys are replaced. Users without a key cannot connect.
    """
    lines = ["# Generated by `deviceshare credentials`: the users of the bus, and what each may do."]
    lines += ["authorization {timeout: 5}", "accounts {"]
    for name in dict.fromkeys(account(user) for user in USERS):
        lines.append(f"  {name} {{")
        if name == BUS:
            lines.append("    jetstream: enabled")
        for kind, entries in (("exports", _exports(name)), ("imports", _imports(name))):
            lines += [f"    {kind}: [", *(f"      {{{entry}}}" for entry in entries), "    ]"]
        lines.append("    users: [")
        for user in (user for user in keys if account(user) == name):
            lines += _user(user, keys[user])
        lines += ["    ]", "  }"]
    return "\n".join([*lines, "}", ""])


def _user(user: str, keys: tuple[str, ...]) -> list[str]:
    """Return the lines of a user, for each of its keys."""
    publish, subscribe = (", ".join(f'"{each}"' for each in subjects) for subjects in allowed(user))
    lines = []
    for key in keys:
        lines += [
            f"    # {user}",
            "    {",
            f"      nkey: {key}",
            "      permissions: {",
            f"        publish: {{allow: [{publish}]}}",
            f"        subscribe: {{allow: [{subscribe}]}}",
            "      }",
            "    }",
        ]
    return lines


def _exports(name: str) -> list[str]:
    """Return what an account exports, and to whom."""
    services: dict[str, list[str]] = {}
    streams: dict[str, list[str]] = {}
    for user in _outside():
        if account(user) == name:
            continue
        for subject in _services(user, name):
            services.setdefault(subject, []).append(account(user))
        for subject in _deliveries(user) if name == BUS else ():
            streams.setdefault(subject, []).append(account(user))
    # The request for a status has one answer of each replica.
    several = dict.fromkeys(_statuses(), ", response: stream")
    return [
        *(f'service: "{each}"{several.get(each, "")}, accounts: [{", ".join(to)}]' for each, to in services.items()),
        *(f'stream: "{each}", accounts: [{", ".join(to)}]' for each, to in streams.items()),
    ]


def _imports(name: str) -> list[str]:
    """Return what an account imports: the other side of :func:`_exports`."""
    found = []
    for user in _outside():
        if account(user) != name:
            continue
        for other in dict.fromkeys(account(each) for each in USERS if account(each) != name):
            found += [f'service: {{account: {other}, subject: "{each}"}}' for each in _services(user, other)]
        found += [f'stream: {{account: {BUS}, subject: "{each}"}}' for each in _deliveries(user)]
    return found


def _outside() -> list[str]:
    """Return the users with accounts of their own."""
    return [user for user in USERS if account(user) != BUS]


def _services(user: str, name: str) -> list[str]:
    """Return the requests that a user may send to an account."""
    rights = USERS[user]
    found = _requests(rights) if name == BUS else []
    if rights.requests_status:
        found += [status(each) for each in SERVICES if account(each) == name]
    return found


def _deliveries(user: str) -> list[str]:
    """Return the subjects of the streams' account that a user hears."""
    rights = USERS[user]
    return [*([f"{inbox(user)}.>"] if rights.reads else []), *(["ledger.>"] if rights.manages_streams else [])]


def _statuses() -> list[str]:
    """Return the subjects of requests for the status of a service."""
    return [status(name) for name, rights in SERVICES.items() if rights.serves_status]


def _requests(rights: Rights) -> list[str]:
    """Return the subjects of requests to JetStream."""
    # Every user checks that all streams exist; their sizes and JetStream's limits are metrics.
    found = ["$JS.API.INFO", "$JS.API.STREAM.LIST", *(f"$JS.API.STREAM.INFO.{stream}" for stream in Stream)]
    for stream in rights.reads:
        # No direct reads, whose answers are messages of the stream; no requests that name a consumer.
        found += [f"$JS.API.STREAM.MSG.GET.{stream}", f"$JS.API.CONSUMER.CREATE.{stream}", f"$JS.FC.{stream}.>"]
    found += [f"$JS.API.STREAM.MSG.DELETE.{stream}" for stream in rights.deletes]
    if rights.creates_streams:
        found += [f"$JS.API.STREAM.CREATE.{stream}" for stream in Stream]
    if rights.manages_streams:
        found.append("$JS.API.STREAM.NAMES")
        found += [f"$JS.API.STREAM.{request}.{stream}" for request in MANAGING for stream in Stream]
    return found
