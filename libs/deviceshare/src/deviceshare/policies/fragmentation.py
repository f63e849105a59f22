"""The policy ``fragmentation``: what leaves most room for the pods that are expected; else the fullest cards."""

from deviceshare.policies.card_policy import CardPolicy

FRAGMENTATION = CardPolicy(name="fragmentation", by_memory=-1, fragmentation=True)
