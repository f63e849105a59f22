"""The NATS protocol of the operations that every pod needs: publish, acknowledgements, deliveries, direct gets.

Reading order: :mod:`.received` (a message from the server), :mod:`.parser` (bytes to messages), :mod:`.frames`
(messages to bytes). :mod:`deviceshare_bus.wire.client` connects them with nats-py, which does everything else:
connecting, TLS, credentials, reconnecting, and all other requests.

A module is plain typed Python. ``<name>.pxd`` beside it declares C types of the same names (Cython's pure Python mode),
as for :mod:`deviceshare.kernels`. Without a C compiler the same file runs uncompiled; it then costs about as much as
nats-py.
"""

from deviceshare_bus.wire.framing.frames import encode_headers as encode_headers, publication as publication
from deviceshare_bus.wire.framing.parser import (
    MAX_LINE as MAX_LINE,
    MAX_MESSAGE as MAX_MESSAGE,
    Malformed as Malformed,
    Other as Other,
    Parser as Parser,
)
from deviceshare_bus.wire.framing.received import Listener as Listener, Received as Received
