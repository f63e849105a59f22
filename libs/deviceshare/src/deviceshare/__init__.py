"""The library of deviceshare: Kubernetes objects in, typed facts, placements and annotations out.

The library is pure: no I/O, event loop, clock, randomness or logging; time and seeds are arguments. The placement
service, the simulator, the tests and notebooks all run the same code.

Packages, bottom up; each imports only from packages on lower layers, and from their entry points:

1. :mod:`deviceshare.model`: the data types that travel between services. :mod:`deviceshare.kernels`: compiled loops
   over nodes and cards.
2. :mod:`deviceshare.conf`: Volcano's configuration. :mod:`deviceshare.state`: the cluster's state as arrays.
3. :mod:`deviceshare.families`: the device families, with the annotation formats of their device plugins.
4. :mod:`deviceshare.objects`: Kubernetes objects to facts. :mod:`deviceshare.allocation`: a node and devices for one
   pod, or the reasons why there are none.
5. :mod:`deviceshare.queueing`: queues, jobs and gangs: which pod is decided next.
"""
