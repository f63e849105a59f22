"""Dynamic Resource Allocation (``resource.k8s.io/v1``): the devices of ResourceClaims. No service uses it yet.

:mod:`deviceshare.model.device_objects` are the objects, :mod:`.codec` reads them, :mod:`.validation` checks them,
:mod:`.pools` are what a node sees, :mod:`.selectors` and :mod:`.cel` evaluate CEL, :mod:`.capacity`,
:mod:`.compatibility`, :mod:`.constraints` and :mod:`.taints` are rules for one device, :mod:`.requests` and
:mod:`.matching` what a claim asks for, :mod:`.solver` searches, and :mod:`.results` is what the API server stores.
"""
