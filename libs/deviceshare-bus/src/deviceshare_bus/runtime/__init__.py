"""What a process of a service is made of.

Reading order: :mod:`.service` (runs a process), :mod:`.shell` (runs a core, with :mod:`.core_writes` and
:mod:`.invalid_messages`), :mod:`.eventlog`, :mod:`.service_metrics`, :mod:`.tracing`, :mod:`.logs`; :mod:`.options`,
:mod:`.plugins`, :mod:`.garbage`; :mod:`.setup` is the set-up step, a command of its own.
"""
