"""The consumer by which a stream is read: ephemeral, in the memory of one server, without acknowledgements."""

from typing import Any

from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo

INACTIVE = 10.0
"""Seconds without a subscriber after which the server deletes a consumer."""


def ephemeral(inbox: str, subject: str, heartbeat: float, **start: Any) -> ConsumerConfig:
    """Return the configuration of a consumer that delivers the messages of a subject to an inbox.

    ``heartbeat``: seconds between two heartbeats of a server that has nothing to deliver. ``start``: where delivery
    begins, and other fields of :class:`ConsumerConfig`.
    """
    return ConsumerConfig(
        deliver_subject=inbox,
        filter_subject=subject,
        ack_policy=AckPolicy.NONE,
        max_deliver=1,
        idle_heartbeat=heartbeat,
        flow_control=True,
        inactive_threshold=INACTIVE,
        num_replicas=1,
        mem_storage=True,
        **start,
    )


def delivers_nothing(consumer: ConsumerInfo) -> bool:
    """Return whether the stream held nothing to deliver when the consumer was made."""
    return not consumer.num_pending and not (consumer.delivered and consumer.delivered.consumer_seq)
