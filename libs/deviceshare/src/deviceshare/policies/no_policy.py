"""Without a policy: the last cards, as in Volcano, and nodes that score 0."""

from deviceshare.policies.card_policy import CardPolicy

NO_POLICY = CardPolicy(name="", by_column=-1)
