"""The current claims of the ledger, read once."""

from deviceshare.model import Claim
from deviceshare_bus.connection import Connection
from deviceshare_bus.follower import Follower
from deviceshare_bus.messages import decode_ledger
from deviceshare_bus.subjects import Stream


async def read_claims(bus: Connection) -> dict[str, Claim]:
    """Return all claims by the uid of their pod, without claims that are being withdrawn."""
    messages = await Follower(bus, Stream.LEDGER).read_to_end()
    ledgers = {message.subject: decode_ledger(message.data) for message in messages}
    return {claim.uid: claim for ledger in ledgers.values() for claim in ledger.claims if not claim.withdraw}
