"""A cluster and its bus in one process and in virtual time; the services on it are those of the product.

:mod:`.virtual_time` (the clock) with :mod:`.link`; the bus: :mod:`.nats_server` with :mod:`.jetstream` and
:mod:`.jetstream_api`, :mod:`.nats_client`; the API server: :mod:`.apiserver` with :mod:`.rest` and
:mod:`.kube_client`; the nodes: :mod:`.node_agents` with :mod:`.device_plugins` and :mod:`.plugin`.
"""
