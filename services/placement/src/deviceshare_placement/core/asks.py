"""What pods ask, under the configuration that holds now."""

from deviceshare.conf import SchedulerConf, matching
from deviceshare.model import PodFact, PodRequest
from msgspec.structs import replace


class Asks:
    """Makes equal asks one object, so that comparing them costs nothing."""

    def __init__(self) -> None:
        self._known: dict[PodRequest, PodRequest] = {}

    def settle(self, fact: PodFact, conf: SchedulerConf) -> PodFact:
        """Return the fact with the one ask that equals its own, the rules of exclusion that the pod matches entered."""
        ask, exclusive = fact.ask, matching(conf.exclusive_rules, fact.labels)
        if ask.exclusive != exclusive:
            ask = replace(ask, exclusive=exclusive)
        ask = self._known.setdefault(ask, ask)
        return fact if ask is fact.ask else replace(fact, ask=ask)
