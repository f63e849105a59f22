"""The connection to nats-server. Only this package uses private names of nats-py.

Reading order: :mod:`.connection` (what all others use), :mod:`.requests`, :mod:`.client` (nats-py's client with our
:mod:`.framing`), :mod:`.connection_reader`, :mod:`.transport`; :mod:`.credentials`, :mod:`.certificates` and
:mod:`.loopback` say who may be at the other end; :mod:`.tasks` is about cancellation and batching.
"""
