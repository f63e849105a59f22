"""Tables of PersistentVolumeClaims, PersistentVolumes and StorageClasses, with the columns of ``kubectl``."""

from collections.abc import Mapping, Sequence
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_cli.object_tables import since
from deviceshare_cli.output import NONE, Table

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def claims_table(claims: Sequence[Object], now: float) -> Table:
    """Return the table of PersistentVolumeClaims; capacity and access modes are those of the bound volume."""
    head = ["NAMESPACE", "NAME", "STATUS", "VOLUME", "CAPACITY", "ACCESS MODES", "STORAGECLASS", "AGE"]
    rows = []
    for claim in claims:
        metadata, spec, status = claim["metadata"], claim.get("spec") or {}, claim.get("status") or {}
        bound = spec.get("volumeName") or ""
        of_volume = [_capacity(status), _modes(status)] if bound else ["", ""]
        row = [metadata.get("namespace", ""), metadata["name"], status.get("phase") or "Pending", bound, *of_volume]
        rows.append([*row, spec.get("storageClassName") or "", since(metadata.get("creationTimestamp"), now)])
    return head, rows


def volumes_table(volumes: Sequence[Object], now: float) -> Table:
    """Return the table of PersistentVolumes, with the claim that each is bound to or reserved for."""
    head = ["NAME", "CAPACITY", "ACCESS MODES", "RECLAIM POLICY", "STATUS", "CLAIM", "STORAGECLASS", "REASON", "AGE"]
    rows = []
    for volume in volumes:
        metadata, spec, status = volume["metadata"], volume.get("spec") or {}, volume.get("status") or {}
        claim = spec.get("claimRef") or {}
        row = [metadata["name"], _capacity(spec), _modes(spec), spec.get("persistentVolumeReclaimPolicy") or "Retain"]
        row += [status.get("phase") or NONE, f"{claim.get('namespace', '')}/{claim['name']}" if "name" in claim else ""]
        row += [spec.get("storageClassName") or "", status.get("reason") or ""]
        rows.append([*row, since(metadata.get("creationTimestamp"), now)])
    return head, rows


def classes_table(classes: Sequence[Object], now: float) -> Table:
    """Return the table of StorageClasses; the default one is marked."""
    head = ["NAME", "PROVISIONER", "RECLAIMPOLICY", "VOLUMEBINDINGMODE", "ALLOWVOLUMEEXPANSION", "AGE"]
    rows = []
    for each in classes:
        metadata = each["metadata"]
        is_default = (metadata.get("annotations") or {}).get(_DEFAULT) == "true"
        row = [f"{metadata['name']} (default)" if is_default else metadata["name"], str(each.get("provisioner", ""))]
        row += [each.get("reclaimPolicy") or "Delete", each.get("volumeBindingMode") or "Immediate"]
        row += [str(bool(each.get("allowVolumeExpansion"))).lower(), since(metadata.get("creationTimestamp"), now)]
        rows.append(row)
    return head, rows


def _capacity(amounts: Mapping[str, Any]) -> str:
    return str((amounts.get("capacity") or {}).get("storage", ""))


def _modes(modes: Mapping[str, Any]) -> str:
    return ",".join(_MODES.get(mode, str(mode)) for mode in modes.get("accessModes") or ())
