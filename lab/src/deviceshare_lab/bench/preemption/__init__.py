"""``deviceshare lab bench preemption``: how long it takes to find the pods that go for a group."""
