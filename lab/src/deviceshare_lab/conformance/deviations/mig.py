"""Deviations of MIG."""

from collections.abc import Callable, Collection

from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.vgpu.section import MigGroup, MigInstance, MigModel, VgpuConf
from msgspec.structs import replace

from deviceshare_lab.conformance.deviations.base import Deviation
from deviceshare_lab.conformance.deviations.vgpu import cards_of, registered, with_register, with_vgpu_conf
from deviceshare_lab.conformance.scene import Scene

NO_MEMORY = MigInstance("", 0, 1)


def _whole_by_size(scene: Scene) -> Scene:
    if scene.pod is None or all(card.mode != vgpu_wire.MIG for card in cards_of(scene)):
        return scene
    # With an additional instance without memory, no instance is a geometry by itself.
    geometries = [
        replace(model, groups=tuple(replace(each, instances=(*each.instances, NO_MEMORY)) for each in model.groups))
        for model in scene.conf.devices.section(VgpuConf).geometries
    ]
    return with_vgpu_conf(scene, geometries=tuple(geometries))


def _kept_geometry(scene: Scene) -> Scene:
    return _recut(scene, lambda group, used: None if used else group)


def _shared_by_software(scene: Scene) -> Scene:
    cards = cards_of(scene)
    named = [name for model in scene.conf.devices.section(VgpuConf).geometries for name in model.models]
    # Volcano reads a node's mode from its last card.
    if not cards or cards[-1].mode != vgpu_wire.MIG or any(name in cards[-1].type for name in named):
        return scene
    return with_register(scene, (registered(card, card.type, vgpu_wire.HAMI_CORE) for card in cards))


def _used_kinds(scene: Scene) -> Scene:
    def only(group: MigGroup, used: Collection[str]) -> MigGroup | None:
        if not used:
            return None
        return replace(
            group,
            instances=tuple(
                each if each.name in used else replace(each, memory=0)  # keeps its position but is never large enough
                for each in group.instances
            ),
        )

    return _recut(scene, only)


def _recut(scene: Scene, offered: Callable[[MigGroup, Collection[str]], MigGroup | None]) -> Scene:
    """Give each card that is partitioned for Volcano its own model with one remaining group of geometries.

    ``offered`` gets the card's group and the names of its used instances; None leaves the card unchanged.
    """
    known = scene.conf.devices.section(VgpuConf).geometries
    models: list[MigModel] = []
    register = []
    for at, card in enumerate(cards_of(scene)):
        number, kinds = scene.mig[at] if at < len(scene.mig) else (-1, ())
        model = next((each for each in known if any(name in card.type for name in each.models)), None)
        group = None
        if model is not None and 0 <= number < len(model.groups):
            group = offered(model.groups[number], {name for name, _ in kinds})
        name = card.type
        if group is not None:
            name = f"{card.type} cut {at}."
            models.append(MigModel((name,), (group,)))
        register.append(registered(card, name, card.mode))
    if not models:
        return scene
    return with_vgpu_conf(with_register(scene, register), geometries=(*models, *known))


MIG = (
    Deviation("whole-mig-card", "a whole MIG card is its one instance, although that has less memory", _whole_by_size),
    Deviation("empty-mig-card", "a card without pods takes any geometry", _kept_geometry, "mig-sticky-geometry"),
    Deviation(
        "all-mig-instances",
        "all instances of a card's geometry are offered",
        _used_kinds,
        "mig-unlisted-instance-skipped",
    ),
    Deviation(
        "mig-without-geometry",
        "a MIG card of a model without a geometry is not allocated",
        _shared_by_software,
    ),
)
