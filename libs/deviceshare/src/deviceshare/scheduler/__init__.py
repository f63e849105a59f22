"""Decides which pods get which nodes and devices, and why the others wait, from the facts of a cluster.

:mod:`.cluster_state` and :mod:`.records` hold what is known of the cluster, with :mod:`.claim_users`,
:mod:`.inherited_policies` and :mod:`.arrivals`. :mod:`.deciding` makes one round of decisions: :mod:`.readiness` says
which groups can be decided, :mod:`.promises` takes back what queues promised in vain, :mod:`.ownership` says which
groups are decided here. :mod:`.overcommit` finds claims without room, :mod:`.explaining` and :mod:`.reporter` say why
pods wait. What is written where, and by which of several replicas, is the caller's.
"""
