"""Reading and writing streams.

Reading order: :mod:`.follower` (reading, with :mod:`.inbox`, :mod:`.consumers` and :mod:`.audit`), :mod:`.publisher`
(writing, with :mod:`.write_queue`), :mod:`.latest` (the newest message of a subject), :mod:`.readback` (after a write
without an answer), :mod:`.streamstate`, :mod:`.creation`, :mod:`.stream_watch`; :mod:`.bounded_stream` and
:mod:`.expiring` remove messages of objects that are gone.
"""

from deviceshare_bus.wire import nats_with_late_aiohttp as nats_with_late_aiohttp
