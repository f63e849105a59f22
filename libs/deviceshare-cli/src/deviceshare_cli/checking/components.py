"""The schedulers, controllers and device plugins of a cluster, by the images of its pods."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from deviceshare.families import FAMILIES, Program

_VOLCANO = (
    Program("Volcano scheduler", r"vc-scheduler(?!-)", "stop it when deviceshare takes over its pods"),
    Program("Volcano agent scheduler", r"vc-agent-scheduler", "it is not replaced"),
    Program("Volcano controllers", r"vc-controller-manager", "keep them: they create the pods of Jobs"),
    Program("Volcano webhooks", r"vc-webhook-manager", "keep them"),
)


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """A program of the cluster: its number of pods, one of their images, and what to do with it."""

    name: str
    pods: int
    namespace: str
    image: str
    advice: str


def find_components(pods: Iterable[Mapping[str, Any]]) -> list[Component]:
    """Return the known programs that run."""
    programs = dict.fromkeys((*_VOLCANO, *(program for family in FAMILIES for program in family.programs)))
    found: dict[tuple[str, str], Component] = {}
    for pod in pods:
        metadata, spec = pod.get("metadata"), pod.get("spec")
        namespace = str(metadata.get("namespace", "")) if isinstance(metadata, dict) else ""
        containers = spec.get("containers") if isinstance(spec, dict) else None
        listed = containers if isinstance(containers, list) else []
        images = {str(each.get("image", "")) for each in listed if isinstance(each, dict)}
        for image in sorted(images):
            for name, pattern, advice in programs:
                if re.search(pattern, image):
                    known = found.get((name, namespace))
                    number = 1 if known is None else known.pods + 1
                    found[name, namespace] = Component(
                        name=name, pods=number, namespace=namespace, image=image, advice=advice
                    )
                    break
    return [found[key] for key in sorted(found)]
