"""One recorded case, replayed step by step.

Every step is compared by itself: whatever we answered, the next step begins with what Volcano did. Where an answer or
a state differs, the deviations that concern it are asked what Volcano reads instead
(:mod:`deviceshare_cli.conformance.deviations`); a difference is on purpose only if we answer exactly as recorded when
we are given that.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from deviceshare.conf import SchedulerConf
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import BATCH, Allocate, Answered, Case, Place, Pod, Release
from deviceshare_cli.conformance.deviations import UNSCORED, Deviation, able_in, as_volcano
from deviceshare_cli.conformance.explaining import explanation
from deviceshare_cli.conformance.recorded import FORMS
from deviceshare_cli.conformance.scene import (
    NOW,
    Answer,
    ReplayState,
    Scene,
    answer,
    replay_state,
    with_grants,
    with_pod,
    without_pod,
)

CLOCK = {"<unix-seconds>": str(int(NOW)), "<unix-nanos>": str(round(NOW * 1_000_000_000))}
"""How moments are recorded, and what we write."""
BEFORE = "before the first step"


class Difference(msgspec.Struct, frozen=True):
    """Something that we answer otherwise than recorded, and at which step."""

    step: str
    field: str
    recorded: str
    ours: str


class Verdict(msgspec.Struct, frozen=True):
    """What became of a case: differences that nothing explains, and the names of the deviations that explain others.

    ``steps`` is how many of the case were compared.
    """

    differences: tuple[Difference, ...]
    deviations: tuple[str, ...]
    steps: int


Differ = Callable[[Scene, ReplayState], Sequence[Difference]]
"""Compares what we say of a scene with what was recorded."""


class Replay:
    """One case on one node: the pods as Volcano has them there, and what we have counted of them."""

    def __init__(self, case: Case, conf: SchedulerConf) -> None:
        assert case.node is not None
        assert case.initial is not None
        self.case, self.initial = case, case.initial
        self.form = FORMS[case.family]
        self.scene = Scene(
            conf=conf,
            node=case.node,
            existing={pod.ref: pod for pod in case.pods},
            counted=frozenset(pod.ref for pod in case.pods),
            cluster_cm=case.cluster_cm,
            forgetful=case.variant == "con-cache-cleared",
            filtered=case.kind == BATCH,
            mig=case.initial.mig or (),
        )
        self.state = replay_state(self.scene)
        self.differences: list[Difference] = []
        self.deviations: dict[str, None] = {}

    def run(self) -> Verdict:
        """Replay all steps up to the first that a known defect of Volcano touched."""
        self.compare(self.scene, self.presence)
        self.compare_state(BEFORE, self.initial)
        compared = 0
        for number, step in enumerate(self.case.steps):
            if frozenset(step.quirks) - UNSCORED:
                break
            compared += 1
            if isinstance(step, Place):
                self.place(f"step {number}, place {step.pod.ref}", step)
            else:
                self.release(f"step {number}, release {step.pod_ref}", step)
        return Verdict(tuple(self.differences), tuple(self.deviations), compared)

    def place(self, name: str, step: Place) -> None:
        """Compare the answer for a pod, then go on as Volcano did."""
        asked = replace(self.scene, asked=step.pod)
        ours = answer(asked, self.state)

        def differ(scene: Scene, state: ReplayState) -> Sequence[Difference]:
            return self.answered(name, step, ours if scene is asked else answer(scene, state))

        self.compare(asked, differ)
        if step.placed and step.allocate is not None:
            self.follow(step, step.allocate, ours)
        self.compare_state(name, step)

    def release(self, name: str, step: Release) -> None:
        """Take a pod off the node, and compare what is left."""
        if step.pod_ref not in self.scene.existing:
            self.differences.append(Difference(name, "pod", "is on the node", "was never placed there"))
            return
        pods = {ref: pod for ref, pod in self.scene.existing.items() if ref != step.pod_ref}
        self.scene = replace(self.scene, existing=pods)
        self.state = replay_state(self.scene) if self.case.mode == "rebuild" else without_pod(self.state, step.pod_ref)
        self.compare_state(name, step)

    # What happens

    def follow(self, step: Place, allocate: Allocate, ours: Answer) -> None:
        """Put a pod where Volcano put it.

        A session charges the decision, where it is the same as ours; all else is charged by the annotations, to which
        the device plugin may have added its own.
        """
        annotations = _written(allocate)
        pod = replace(step.pod, annotations=step.pod.annotations | annotations)
        if self.case.mode != "session":
            self.enter(replace(pod, annotations=pod.annotations | step.device_plugin_annotations))
            return
        locked = self.scene.locked or bool(allocate.node_lock)
        self.scene = replace(self.scene, existing=self.scene.existing | {pod.ref: pod}, locked=locked)
        if self.bare(ours.annotations) == self.bare(annotations):
            self.state = with_grants(self.state, pod, ours.grants)
        else:
            self.state = with_pod(self.state, pod, decided=True)

    def enter(self, pod: Pod) -> None:
        """Put a pod on the node, or what has become of it, to be counted by its annotations."""
        existing = self.scene.existing | {pod.ref: pod}
        self.scene = replace(self.scene, existing=existing, counted=self.scene.counted | {pod.ref})
        self.state = replay_state(self.scene) if self.case.mode == "rebuild" else with_pod(self.state, pod)

    # What is compared

    def presence(self, scene: Scene, state: ReplayState) -> Sequence[Difference]:
        """Compare whether the node has cards of the family, where that was recorded."""
        if self.initial.present is None:
            return ()
        ours = self.form.present(self.case, state.node)
        return differing(BEFORE, "devices on the node", self.initial.present, ours)

    def compare_state(self, name: str, step: Answered) -> None:
        """Compare what is taken of each card."""
        if step.state is None:
            return
        recorded = self.form.recorded(self.case, step)
        self.compare(
            self.scene,
            lambda _, state: differing(name, "state", recorded, self.form.state(self.case, step, state)),
        )
        self.scene = replace(self.scene, mig=step.mig or ())

    def answered(self, name: str, step: Place, ours: Answer) -> Sequence[Difference]:
        """Compare an answer for a pod. What depends on chance with Volcano may be any of what was seen."""
        if step.filter.skipped:
            given = sum(len(grant.devices) for grant in ours.grants) if self.initial.present else 0
            return differing(name, "devices given", 0, given)
        if ours.fits != step.placed:
            if "fits" in step.nondeterministic:
                return ()
            return differing(name, "fits", step.placed, ours.fits)
        if not ours.fits or step.allocate is None:
            return ()
        recorded, written = self.bare(_written(step.allocate)), self.bare(ours.annotations)
        choice = self.form.choice(self.case)
        found: list[Difference] = []
        if written.get(choice) not in [self.form.bare(choice, value) for value in step.alternatives]:
            for key in sorted(recorded.keys() | written.keys()):
                found += differing(name, f"annotation {key}", recorded.get(key, ""), written.get(key, ""))
        is_scored = self.form.is_scored(self.case) and "score" not in step.nondeterministic
        if is_scored and step.score is not None and not UNSCORED & frozenset(step.quirks):
            found += differing(name, "score", step.score, ours.score)
        return found

    def bare(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return annotations without the slots of containers that have no device."""
        return {key: self.form.bare(key, value) for key, value in annotations.items()}

    # What explains a difference

    def compare(self, scene: Scene, differ: Differ) -> None:
        """Compare, and ask the deviations where there is a difference."""
        found = differ(scene, self.state)
        if not found:
            return

        def explains(deviations: Sequence[Deviation]) -> bool:
            other = as_volcano(scene, deviations)
            return not differ(other, replay_state(other))

        if explaining := explanation(able_in(scene), explains):
            self.deviations |= dict.fromkeys(deviation.name for deviation in explaining)
        else:
            self.differences += found


def _written(allocate: Allocate) -> dict[str, str]:
    """Return the recorded annotations, with our clock."""
    return {key: CLOCK.get(value, value) for key, value in allocate.annotations.items()}


def differing(step: str, field: str, recorded: object, ours: object) -> Sequence[Difference]:
    """Return the difference between two values, none where they are equal."""
    if recorded == ours:
        return ()
    return (Difference(step, field, _shown(recorded), _shown(ours)),)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
