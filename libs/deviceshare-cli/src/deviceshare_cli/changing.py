"""``deviceshare apply`` and ``deviceshare delete``: change the local cluster, with the output of ``kubectl``."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from deviceshare.model import InputError
from deviceshare_cluster.interface import ClusterError
from deviceshare_cluster.local import Action, LocalCluster, Manifest
from deviceshare_cluster.local.admission import identify
from deviceshare_cluster.local.kinds import named_key

from deviceshare_cli import runfile
from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import quoted_title, read, title
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.pods import other_schedulers
from deviceshare_cli.reading.kinds import RESOURCES, not_found, parse_target, split_name

CONNECT_SECONDS = 5.0


@asynccontextmanager
async def connected(run: runfile.Run) -> AsyncIterator[LocalCluster]:
    """Connect to the local cluster. Raises CommandError if it does not answer or a request fails."""
    if not run.cluster:
        raise CommandError("this system runs on a live cluster: change its objects with kubectl")
    cluster = LocalCluster(run.cluster, name="deviceshare")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await cluster.__aenter__()
    except TimeoutError:
        raise CommandError(f"the local cluster at {run.cluster} does not answer") from None
    try:
        yield cluster
    except ClusterError as error:
        raise CommandError(str(error)) from None
    finally:
        await cluster.__aexit__(None, None, None)


def _manifests(paths: Sequence[str]) -> tuple[list[Manifest], bool]:
    """Return the manifests of files, and whether any is invalid; the problems are written to stderr."""
    manifests, problems = read(paths)
    for problem in problems:
        to_stderr(f"error: {problem}")
    return manifests, bool(problems)


async def apply(run: runfile.Run, paths: Sequence[str]) -> int:
    """Create or update the objects of files and return the exit status: 1 if any failed."""
    manifests, failed = _manifests(paths)
    if not manifests and not failed:
        raise CommandError("no objects passed to apply")
    async with connected(run) as cluster:
        results = await cluster.load([manifest.object for manifest in manifests])
    for manifest, result in zip(manifests, results, strict=True):
        others = other_schedulers(manifest.object, run.schedulers) if result.problem is None else []
        warnings = [*result.warnings, *others]
        for field, text in warnings:
            to_stderr(f"Warning: {manifest.located(field, text)}")
        if result.problem is not None:
            to_stderr(f"error: {manifest.located(result.problem.field, str(result.problem))}")
            failed = True
        else:
            print(f"{title(result, manifest.object['apiVersion'])} {result.action}")
    return int(failed)


async def delete_named(
    run: runfile.Run, arguments: Sequence[str], namespace: str | None, *, ignore_not_found: bool
) -> int:
    """Delete objects by kind and name and return the exit status: 1 if any failed."""
    target = parse_target(arguments, tuple(resource for resource in RESOURCES if resource.kind))
    resource = target.resource
    if not target.names:
        raise CommandError("resource(s) were provided, but no name was specified")
    names = [split_name(name, namespace) if resource.namespaced else ("", name) for name in target.names]
    async with connected(run) as cluster:
        results = await cluster.delete_all([named_key(resource.kind, where, name) for where, name in names])
    failed = False
    for result in results:
        if result.action is Action.DELETED:
            kind = f"{resource.singular}.{resource.group}" if resource.group else resource.singular
            print(f'{kind} "{result.name}" deleted')
        elif not ignore_not_found:
            to_stderr(not_found(resource, result.name))
            failed = True
    return int(failed)


async def delete(run: runfile.Run, paths: Sequence[str], *, ignore_not_found: bool) -> int:
    """Delete the objects of files and return the exit status: 1 if any failed."""
    manifests, failed = _manifests(paths)
    named = []
    for manifest in manifests:
        try:
            named.append((manifest.object["apiVersion"], identify(manifest.object)))
        except InputError as error:
            to_stderr(f"error: {manifest.located(error.problem.field, str(error))}")
            failed = True
    async with connected(run) as cluster:
        results = await cluster.delete_all([key for _, key in named])
    for (api_version, _), result in zip(named, results, strict=True):
        if result.action is Action.DELETED:
            print(f"{quoted_title(result, api_version)} deleted")
        elif not ignore_not_found:
            to_stderr(f"error: {quoted_title(result, api_version)} not found")
            failed = True
    return int(failed)
