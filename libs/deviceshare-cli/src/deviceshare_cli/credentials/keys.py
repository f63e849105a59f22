"""nkeys: Ed25519 keys of NATS. The seed stays with the user; nats-server knows the public key."""

import os

import nkeys  # type: ignore[import-untyped]

from deviceshare_cli.errors import CommandError


def new_seed() -> str:
    """Return the seed of a new user key, ``SU…``."""
    return str(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER).decode())


def public_of(seed: str) -> str:
    """Return the public key, ``U…``, of a seed. Raises CommandError."""
    try:
        pair = nkeys.from_seed(bytearray(seed.strip().encode()))
    except Exception:  # nkeys raises its own errors, binascii's and struct's; the error must not show the seed
        raise CommandError("a file of credentials does not hold the seed of a user's nkey, SU…") from None
    public = str(pair.public_key.decode())
    pair.wipe()
    return public
