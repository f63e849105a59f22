"""The checks of ResourceClaims and their templates: of the fields that controllers and this package read.

What drivers and schedulers read of them is checked where it is read (:mod:`deviceshare.families.dra.codec`).
"""

from deviceshare.model import parse_quantity

from deviceshare_localcluster.checks import ManifestField


def admit_claim(claim: ManifestField) -> None:
    """Check a ResourceClaim. Raises RequestError."""
    claim["spec"].optional_mapping()
    _check_finalizers(claim["metadata"])
    status = claim["status"]
    for user in status["reservedFor"].items():
        user.mapping("a mapping with resource, name and uid")
        user["apiGroup"].optional_text()
        for field in ("resource", "name", "uid"):
            user[field].text()
    status["allocation"].optional_mapping()
    status["allocation"]["devices"].optional_mapping()
    for result in status["allocation"]["devices"]["results"].items():
        result.mapping()
        _check_quantities(result["consumedCapacity"])
    for device in status["devices"].items():
        device.mapping()


def admit_claim_template(template: ManifestField) -> None:
    """Check the template of ResourceClaims. Raises RequestError."""
    spec = template["spec"]
    spec.mapping("a mapping with the spec of a ResourceClaim")
    spec["spec"].mapping("the spec of a ResourceClaim")
    spec["metadata"].check_metadata()


def admit_claims_of_pod(pod: ManifestField) -> None:
    """Check the ResourceClaims of a pod, and those that its status names. Raises RequestError."""
    for claim in pod["spec"]["resourceClaims"].items():
        claim.mapping()
        claim["name"].label()
        given = [each for each in ("resourceClaimName", "resourceClaimTemplateName") if claim[each].value is not None]
        if len(given) != 1:
            raise claim.error("either resourceClaimName or resourceClaimTemplateName")
        claim[given[0]].name()
    for status in pod["status"]["resourceClaimStatuses"].items():
        status.mapping("a mapping with a name")
        status["name"].text()
        status["resourceClaimName"].optional_text()


def _check_quantities(amounts: ManifestField) -> None:
    for name, value in amounts.optional_mapping().items():
        try:
            parse_quantity(value)
        except ValueError:
            raise amounts[name].error("a quantity such as 4Gi") from None


def _check_finalizers(metadata: ManifestField) -> None:
    for finalizer in metadata["finalizers"].items():
        finalizer.text()
