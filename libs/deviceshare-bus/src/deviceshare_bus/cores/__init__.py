"""State machines that are not of one service, and what all cores have in common. Pure.

Reading order: :mod:`.core` (events and commands of every core), :mod:`.core_log` (their record), then
:mod:`.conditional_writer` (compare-and-set), :mod:`.membership` and :mod:`.division` (replicas);
:mod:`.position`, :mod:`.postponed` and :mod:`.window` decide for readers and writers of streams.
"""
