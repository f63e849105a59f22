"""Shared by the services: streams, messages, followers, writers, the shell around each core, tracing.

Reading order: :mod:`~deviceshare_bus.subjects` (streams and subjects), :mod:`~deviceshare_bus.messages`,
:mod:`~deviceshare_bus.core` (events and commands of every core), :mod:`~deviceshare_bus.shell` (runs a core),
:mod:`~deviceshare_bus.conditional_writer`, :mod:`~deviceshare_bus.core_log`, :mod:`~deviceshare_bus.service` (runs a
process), :mod:`~deviceshare_bus.connection` and :mod:`~deviceshare_bus.requests` (nats-server),
:mod:`~deviceshare_bus.follower` (reading), :mod:`~deviceshare_bus.publisher` and :mod:`~deviceshare_bus.latest`
(writing), :mod:`~deviceshare_bus.readback` (reading after a write without an answer).
"""
