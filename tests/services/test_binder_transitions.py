"""The table of transitions of bind tasks."""

from itertools import product

import pytest
from deviceshare_binder.core.bind_task import State
from deviceshare_binder.core.bind_transitions import TRANSITIONS, TaskEvent
from deviceshare_cluster.interface import BindState
from support.binder_scene import claim, pod, started


def test_each_pair_of_a_state_and_an_event_is_decided_once():
    decided = [(state, transition.event) for transition in TRANSITIONS for state in transition.states]
    assert sorted(decided) == sorted(product(set(State) - {State.ENDED}, TaskEvent))


def test_an_answer_to_no_request_is_a_defect():
    core = started(claim(), pods=[pod()])
    with pytest.raises(AssertionError, match="c1 is queued: the pod was bound"):
        core.bind_answered("c1", BindState.BOUND, "n1", "", 0.0)
