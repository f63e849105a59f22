"""Random faults and checkers: ``deviceshare chaos``, on real processes in :mod:`.real`."""
