"""The command ``credentials``."""

import re
import sys
import tempfile
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A part of a name of DNS (RFC 1123)."""


class Format(StrEnum):
    """What the command writes."""

    FILES = "files"
    KUBERNETES = "kubernetes"
    CLUSTER = "cluster"


@app.command()
def credentials(
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The directory of the credentials; it gets mode 0700.")
    ] = None,
    output: Annotated[
        Format,
        typer.Option(
            "--format",
            help="files: only the directory. kubernetes: also print its content as Secrets. cluster: "
            "create the Secrets that do not exist.",
        ),
    ] = Format.FILES,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Namespace of the system (default: that of DIR, or deviceshare-system)."),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A further name or IP address of nats-server; repeatable. --rotate keeps those of DIR."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=36500, help="Days for which certificates are valid.")
    ] = 365,
    tls: Annotated[bool, typer.Option("--tls/--no-tls", help="Write certificates, too.")] = True,
    rotate: Annotated[
        bool,
        typer.Option("--rotate", help="Add new keys and certificates of the bus to those of DIR, which stay valid."),
    ] = False,
    finish: Annotated[bool, typer.Option("--finish", help="Remove those that --rotate has replaced.")] = False,
) -> None:
    """Write the credentials of the bus and the key that signs device annotations.

    For each user of the bus a seed and a certificate, for nats-server the users with their public keys and permissions
    and its certificates. Of a DIR that has credentials only the permissions are changed, to those of this version, and
    users that are new are added. Without DIR, only with --format kubernetes and cluster, nothing is kept: the Secrets
    are the only copy. --format cluster changes of the Secrets that exist only the permissions of the bus, to those of
    this version; it uses the service account, or else the kubeconfig.
    """
    from deviceshare_bus.wire.credentials import CERTIFICATE, FILES

    from deviceshare_cli.credentials import files, rotation, upgrade
    from deviceshare_cli.credentials.certificates import end_of
    from deviceshare_cli.credentials.manifests import SERVER_SECRET, manifests
    from deviceshare_cli.exit_status import run_and_exit

    if rotate and finish:
        raise typer.BadParameter("give either --rotate or --finish")
    if directory is None and (rotate or finish or output is Format.FILES):
        raise typer.BadParameter("DIR is required, except with --format kubernetes or cluster for new credentials")
    if not tls and output is not Format.FILES:
        raise typer.BadParameter("pods mount certificates: --no-tls is for files only")
    _check_names(namespace, host or [])
    if directory is not None and output is Format.CLUSTER:
        raise typer.BadParameter(
            "--format cluster makes new credentials, without DIR: apply --format kubernetes instead"
        )

    async def write() -> int:
        with tempfile.TemporaryDirectory(prefix="deviceshare-credentials-") as temporary:  # mode 0700
            where = directory if directory is not None else Path(temporary) / "credentials"
            own = files.namespace_of(where, namespace)
            exists = (where / files.SERVER).exists()
            rotating = (where / rotation.ROTATION).exists()
            if rotate:
                if exists and not rotating:
                    upgrade.require_current(where)
                rotation.begin(where, host or (), days)
            elif finish:
                rotation.finish(where)
            elif not exists:
                hosts = (*files.default_hosts(own), *(host or ()))
                files.write(where, hosts, tls=tls, days=days, namespace=own)
            else:
                changed = not rotating and upgrade.upgrade(where, own, days)
                if output is Format.FILES:
                    done = "a rotation has begun, nothing" if rotating else "permissions" if changed else "nothing"
                    print(f"{where} has credentials: {done} changed")
            if output is Format.KUBERNETES:
                sys.stdout.write(manifests(where, own))
            elif output is Format.CLUSTER:
                from deviceshare_cli.credentials import cluster  # it takes a second

                written = await cluster.write_missing(manifests(where, own), own, days)
                print("\n".join(f"{what} {name}" for name, what in written.items()) or "all Secrets exist")
                if written.get(SERVER_SECRET) == "created":
                    end = end_of(files.read(where / files.SERVER / FILES[CERTIFICATE]))
                    print(f"certificates of the bus are valid until {end:%Y-%m-%d}")
        return 0

    run_and_exit(write())


def _check_names(namespace: str | None, hosts: list[str]) -> None:
    if namespace is not None and not _LABEL.fullmatch(namespace):
        raise typer.BadParameter(f"{namespace!r} is not the name of a namespace")
    if wrong := [each for each in hosts if not _is_host(each)]:
        raise typer.BadParameter(f"{wrong[0]!r} is not the name or IP address of a host")


def _is_host(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return all(_LABEL.fullmatch(label) for label in text.lower().removeprefix("*.").split("."))
    return True
