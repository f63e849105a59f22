"""What read commands show, from a running system or from a snapshot file.

Reading order: :mod:`.kinds` (names of resources, as ``kubectl`` accepts them), :mod:`.reader` (the interface),
:mod:`.live` (a running system), :mod:`.snapshot` (a file of ``deviceshare snapshot``), :mod:`.opening` (chooses one of
the two), :mod:`.selectors` and :mod:`.sorting` (``-l`` and ``--sort-by``).
"""
