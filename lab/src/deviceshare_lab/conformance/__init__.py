"""``deviceshare lab conformance``: compares the library's answers with answers recorded from Volcano's device code.

Reading order: :mod:`~deviceshare_lab.conformance.cases` (a recorded case), ``replay`` (the replay of a case),
``recorded`` (the recorded form of each family's state and annotations), ``deviations`` (deliberate differences) and
``report``.
"""
