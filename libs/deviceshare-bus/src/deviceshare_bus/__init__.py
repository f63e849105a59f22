"""What the services share: subjects and streams, messages, the ledger's writes, the service runner, tracing.

Reading order: :mod:`~deviceshare_bus.subjects` (where what stands), :mod:`~deviceshare_bus.messages` (what stands
there), :mod:`~deviceshare_bus.follower` (reading), :mod:`~deviceshare_bus.publisher` (writing; where that is
unclear, :mod:`~deviceshare_bus.readback`), :mod:`~deviceshare_bus.latest` (writing last words),
:mod:`~deviceshare_bus.service` (running).
"""
