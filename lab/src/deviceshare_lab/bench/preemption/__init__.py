"""``deviceshare lab bench preemption``: how long it takes to find the pods that are evicted for a group."""
