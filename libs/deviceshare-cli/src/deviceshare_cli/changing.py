"""``deviceshare apply``, ``create``, ``scale`` and ``delete``: change the local cluster, with ``kubectl``'s output."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from deviceshare.model import InputError
from deviceshare_cluster.interface import ClusterError, Object
from deviceshare_localcluster import Action, LocalCluster, Manifest
from deviceshare_localcluster.admission import identify
from deviceshare_localcluster.kinds import named_key
from deviceshare_localcluster.names import generated_name
from deviceshare_localcluster.workloads import job_from

from deviceshare_cli import runfile
from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import quoted_title, read, title
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.pods import other_schedulers
from deviceshare_cli.reading.kinds import (
    CRON_JOBS,
    KUBERNETES_JOBS,
    RESOURCES,
    SCALABLE,
    WORKLOADS,
    not_found,
    parse_target,
    split_name,
)

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


async def create(run: runfile.Run, paths: Sequence[str]) -> int:
    """Create the objects of files and return the exit status: 1 if any failed, or exists."""
    manifests, failed = _manifests(paths)
    if not manifests and not failed:
        raise CommandError("no objects passed to create")
    async with connected(run) as cluster:
        for manifest in manifests:
            try:
                result = await cluster.create(_with_random_name(manifest.object))
            except InputError as error:
                to_stderr(f"error: {manifest.located(error.problem.field, str(error))}")
                failed = True
                continue
            for field, text in (*result.warnings, *other_schedulers(manifest.object, run.schedulers)):
                to_stderr(f"Warning: {manifest.located(field, text)}")
            print(f"{title(result, manifest.object['apiVersion'])} {result.action}")
    return int(failed)


def _with_random_name(obj: Object) -> Object:
    """Return an object with a new name if it has only a ``generateName``: each creation makes another object."""
    metadata = obj.get("metadata")
    prefix = metadata.get("generateName") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name") is not None or not isinstance(prefix, str):
        return obj
    return {**obj, "metadata": {**metadata, "name": generated_name(prefix, secrets.token_hex(8))}}


async def create_job(run: runfile.Run, name: str, origin: str, namespace: str | None) -> int:
    """Create a Job from a CronJob, ``cronjob/NAME``, and return the exit status: 1 if it failed."""
    target = parse_target([origin], (CRON_JOBS,))
    if len(target.names) != 1:
        raise CommandError(f"--from={origin}: expected cronjob/NAME")
    where, cron_name = split_name(target.names[0], namespace)
    async with connected(run) as cluster:
        cron = await cluster.get(CRON_JOBS.kind, where, cron_name)
        if cron is None:
            to_stderr(not_found(CRON_JOBS, cron_name))
            return 1
        try:
            result = await cluster.create(job_from(cron, name))
        except InputError as error:
            to_stderr(f"error: {error}")
            return 1
    print(f"{KUBERNETES_JOBS.title(result.name)} {result.action}")
    return 0


async def scale(run: runfile.Run, arguments: Sequence[str], replicas: int, namespace: str | None) -> int:
    """Set the replicas of workloads and return the exit status: 1 if one does not exist, or is refused."""
    target = parse_target(arguments, SCALABLE)
    resource = target.resource
    if not target.names:
        raise CommandError("resource(s) were provided, but no name was specified")
    failed = False
    async with connected(run) as cluster:
        for name in target.names:
            result = await cluster.scale(resource.kind, *split_name(name, namespace), replicas)
            if result.action is Action.ABSENT:
                to_stderr(not_found(resource, result.name))
                failed = True
            elif result.problem is not None:
                to_stderr(str(result.problem))
                failed = True
            else:
                print(f"{resource.title(result.name)} {result.action}")
    return int(failed)


async def delete_named(
    run: runfile.Run, arguments: Sequence[str], namespace: str | None, *, ignore_not_found: bool
) -> int:
    """Delete objects by kind and name and return the exit status: 1 if any failed."""
    target = parse_target(arguments, tuple(resource for resource in (*RESOURCES, *WORKLOADS) if resource.kind))
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
