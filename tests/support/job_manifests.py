"""Manifests of Volcano's Jobs, with tasks of one container."""

from typing import Any


def job(*tasks: dict[str, Any], phase: str = "", template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a Job named ``j``; ``template``: the metadata of its pods, ``phase``: of the Job."""
    pod = {"metadata": template or {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    given = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": [{"name": "t", "template": pod, **task} for task in tasks], **spec},
    }
    return given | ({"status": {"state": {"phase": phase}}} if phase else {})
