"""The pure library of deviceshare: objects in, typed facts, placements and annotations out.

Nothing here does I/O, reads a clock, draws a random number or writes a log; time and seeds are arguments.
So the same code decides in the placement service, in a simulator, in a test and in a notebook.

Reading order: :mod:`deviceshare.facts` (what is known of the cluster), :mod:`deviceshare.claims` (what is decided),
:mod:`deviceshare.families` (one module a device family), :mod:`deviceshare.allocator` (which node, which devices),
:mod:`deviceshare.objects` (Kubernetes objects to facts) and :mod:`deviceshare.conf` (the scheduler's configuration).
"""
