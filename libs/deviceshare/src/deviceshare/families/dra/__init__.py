"""Dynamic Resource Allocation (``resource.k8s.io/v1``): the devices of ResourceClaims. No service uses it yet.

:mod:`.views` are the objects, :mod:`.pools` what a node sees, :mod:`.selectors` and :mod:`.cel` evaluate CEL,
:mod:`.capacity` and :mod:`.constraints` are rules for one device, :mod:`.solver` searches.
"""
