"""What the services share: streams and messages, reading and writing them, the service runner, tracing.

Reading order: :mod:`~deviceshare_bus.subjects` (subjects and streams), :mod:`~deviceshare_bus.messages` (their messages),
:mod:`~deviceshare_bus.connection` and :mod:`~deviceshare_bus.requests` (nats-server),
:mod:`~deviceshare_bus.follower` (reading), :mod:`~deviceshare_bus.publisher` (writing),
:mod:`~deviceshare_bus.readback` (reading after a write of unknown outcome), :mod:`~deviceshare_bus.latest` (writing the
newest message of a subject), :mod:`~deviceshare_bus.service` (running).
"""
