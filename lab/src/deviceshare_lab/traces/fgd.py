"""FGD, fragmentation gradient descent ("Beware of Fragmentation", USENIX ATC 2023), with its integer scores."""

from math import exp

from deviceshare_lab.traces.gradient import GradientPolicy


class Fgd(GradientPolicy):
    """The policy FGD. The order of its sums decides equal scores, and is that of the published runs."""

    def fragmentation(self, row: int, cpu: int) -> float:
        """Return what is free, for each typical pod all of it unless the pod fits, then the cards without room."""
        typical = self.typical
        total = self.cards.count(typical)
        model = self.nodes.models[row]
        lacks_both = lacks_cards = lacks_cpu = no_cards = no_cards_cpu = no_model = 0.0
        for at in range(typical.size):
            share = typical.shares[at]
            level = typical.level[at]
            if not typical.allowed[at, model]:
                no_model += total * share
            elif typical.count[at] == 0:
                if cpu >= typical.cpu[at]:
                    no_cards += total * share
                else:
                    no_cards_cpu += total * share
            else:
                fitting = self.cards.number - self.cards.counts[level]
                if cpu >= typical.cpu[at]:
                    if fitting >= typical.count[at]:
                        lacks_cards += self.cards.sums[level] * share
                    else:
                        lacks_cards += total * share
                elif fitting >= typical.count[at]:
                    lacks_cpu += total * share
                else:
                    lacks_both += total * share
        return ((((lacks_both + lacks_cards) + lacks_cpu) + no_cards) + no_cards_cpu) + no_model

    def points(self, less: float) -> float:
        """Return 50 for unchanged fragmentation, and a point for each 40 thousandths of a card; 0 to 100."""
        score = int(100.0 * (1.0 / (1.0 + exp(-less / 1000.0))))
        return float(score)
