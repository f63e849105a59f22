"""Shared by the services. Each package uses only those before it; the first two are pure.

:mod:`~deviceshare_bus.messages` (subjects, rules and encoding of what is sent), :mod:`~deviceshare_bus.cores` (state
machines), :mod:`~deviceshare_bus.wire` (nats-server and nats-py), :mod:`~deviceshare_bus.streams` (followers and
writers) and, beside it, :mod:`~deviceshare_bus.web` (HTTP), :mod:`~deviceshare_bus.runtime` (the shell around a core,
and a service's process). The ``__init__.py`` of each says in which order to read it.
"""
