"""``deviceshare simulate``: the order of work on a made-up cluster in made-up time.

The decisions are the library's own (:mod:`deviceshare.ordering`, :mod:`deviceshare.allocator`); only pods that come and
end are played. Read :mod:`.cluster`, then :mod:`.fairness`.
"""
