"""What a card policy is: numbers, which the kernels apply to the arrays of cards, row by row."""

import msgspec


class CardPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How the cards of a node are ordered, and how nodes are scored.

    The card with the smallest ``by_memory`` x used memory + ``by_shares`` x shares + ``by_column`` x column goes first,
    of equal ones the first. Families measure what they share: chips have the used part of their memory, and 1 for any
    number of shares; cards of gpu-share have their used memory for both.

    The score of a node is ``fullness`` x (how full the chosen cards would be, 0 to 100 each) + ``emptiness`` x
    100 / (1 + shares of the cards of the node); higher is better.
    """

    name: str
    by_memory: int = 0
    by_shares: int = 0
    by_column: int = 0
    fullness: float = 0.0
    emptiness: float = 0.0
    fragmentation: bool = False
    """Whether cards and nodes are compared by the fragmentation of the node instead; then the pods that arrive are
    counted. Where no kernel compares cards so, they have the order above."""
    exact: bool = True
    """Whether the exact score breaks ties between nodes whose rounded scores are equal."""
