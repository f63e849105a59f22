"""``deviceshare conformance``: the library's answers beside those that were recorded from Volcano's device code.

Read :mod:`~deviceshare_cli.conformance.cases` (what a recorded case is), then ``replay`` (how one is replayed),
``recorded`` (how each family's state and annotations were recorded), ``deviations`` (where we answer otherwise on
purpose) and ``report``.
"""
