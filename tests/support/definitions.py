"""CustomResourceDefinitions on a real API server: created for one test, since all tests share one server."""

import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.apiserver import ApiServer

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(server: ApiServer, definition: dict[str, Any]) -> None:
    """Create a definition and wait until its objects are served."""
    server.request("POST", PATH, definition)
    _wait(server, definition, served=True)


def uninstall(server: ApiServer, definition: dict[str, Any]) -> None:
    """Delete a definition and all of its objects."""
    server.request("DELETE", f"{PATH}/{definition['metadata']['name']}")
    _wait(server, definition, served=False)


@contextmanager
def installed(server: ApiServer, *definitions: dict[str, Any]) -> Iterator[None]:
    """Have definitions for a while."""
    done = []
    try:
        for definition in definitions:
            install(server, definition)
            done.append(definition)
        yield
    finally:
        for definition in done:
            uninstall(server, definition)


def _wait(server: ApiServer, definition: dict[str, Any], *, served: bool) -> None:
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    until = time.monotonic() + 60
    while True:
        try:
            server.request("GET", path)
            found = True
        except urllib.error.HTTPError as error:
            error.close()
            found = False
        if found is served:
            return
        assert time.monotonic() < until, f"{path} is {'not ' if served else ''}served"
        time.sleep(0.05)
