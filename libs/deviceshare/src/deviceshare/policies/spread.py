"""The policy ``spread``: the cards with the fewest shares, and nodes with few shares on their cards."""

from deviceshare.policies.card_policy import CardPolicy

SPREAD = CardPolicy(name="spread", by_shares=1, emptiness=1.0)
