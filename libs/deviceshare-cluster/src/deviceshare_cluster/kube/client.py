"""Requests to the API server: the official client's configuration, TLS and tokens, with raw JSON in and out.

The client's typed models are not used: the answer to a Binding does not match its model, and decoding every pod into a
model takes most of the time of a list (kubernetes 37).
"""

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.config.config_exception import ConfigException

from deviceshare_cluster.eviction import SEVERAL_BUDGETS
from deviceshare_cluster.interface import ClusterError

REQUEST_SECONDS = 30.0
_TIMEOUT = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
JSON = "application/json"
MERGE = "application/merge-patch+json"
NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Kubelet puts the namespace of the service account there."""

Query = Sequence[tuple[str, str]]
_AUTH = ("BearerToken",)


BUDGET = "DisruptionBudget"
"""The reason of an :class:`ApiRefusal` of an eviction that PodDisruptionBudgets do not allow."""
NOT_PERMITTED = 'cannot create resource "pods/eviction"'
"""In the message of an :class:`ApiRefusal` with status 403 of an eviction for which the client has no permission.
Admission webhooks also answer 403, about one pod."""
NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The reason of an :class:`ApiRefusal` of what would be created, such as an eviction, in a namespace being deleted."""


class ApiRefusal(Exception):
    """The API server refused a request: its ``status`` code (4xx), ``reason`` and message.

    Of an eviction that PodDisruptionBudgets do not allow the status is 429 or 500, the reason :data:`BUDGET`.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or reason or str(status))
        self.status = status
        self.reason = reason


class _Cause(msgspec.Struct):
    """``metav1.StatusCause``."""

    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    """``metav1.StatusDetails``."""

    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    """``metav1.Status``."""

    reason: str = ""
    message: str = ""
    details: _Details | None = None

    @property
    def budget(self) -> str:
        """Why PodDisruptionBudgets do not allow an eviction, '' if they are not the reason.

        Source: Kubernetes pkg/registry/core/pod/storage/eviction.go.
        """
        if self.message.startswith(SEVERAL_BUDGETS):
            return self.message
        return next((cause.message or self.message for cause in self.causes if cause.reason == BUDGET), "")

    @property
    def causes(self) -> Sequence[_Cause]:
        """The causes of a refusal."""
        return (self.details.causes or ()) if self.details is not None else ()


_MALFORMED = (yaml.YAMLError, TypeError, ValueError, LookupError, AttributeError)
"""Errors of the official client when it reads a kubeconfig that is none."""
_TRY_AGAIN = (401, 408, 429)
"""Transient: an expired token, a slow server, priority and fairness."""


class KubeClient:
    """A connection to one API server. Use after :meth:`start`."""

    def __init__(self, kubeconfig: str = "", context: str = "", user_agent: str = "deviceshare") -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._user_agent = user_agent
        self._api: client.ApiClient
        self._refused = False
        """The last answer was 401: the token expired or was replaced."""

    async def start(self) -> None:
        """Connect to the API server of the service account, else of the kubeconfig. Raises a final ClusterError."""
        configuration = await self.read_configuration()
        configuration.proxy = configuration.proxy or _proxy_of(configuration.host)
        # With trust_env aiohttp looks for proxies and ~/.netrc in a thread for each request, which doubles its cost.
        configuration.client_session_kwargs = {"trust_env": False}
        self._api = client.ApiClient(configuration)

    async def read_configuration(self) -> client.Configuration:
        """Return the client's configuration. Raises a final ClusterError."""
        try:
            return await self._configuration()
        except (ConfigException, OSError, *_MALFORMED) as error:
            raise ClusterError(f"no cluster: {' '.join(str(error).split())}", final=True) from error

    @property
    def _is_outside(self) -> bool:
        """Whether a kubeconfig is used, not a service account."""
        return bool(self._kubeconfig or self._context or "KUBERNETES_SERVICE_HOST" not in os.environ)

    def own_namespace(self) -> str:
        """Return the namespace of the service account, '' without one."""
        try:
            return "" if self._is_outside else NAMESPACE.read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    async def _configuration(self) -> client.Configuration:
        """Return the client's configuration. Raises ConfigException, OSError."""
        configuration = client.Configuration()
        if self._is_outside:
            await config.load_kube_config(
                _existing(self._kubeconfig), self._context or None, client_configuration=configuration
            )
        else:
            config.load_incluster_config(client_configuration=configuration)
        return configuration

    async def _renew_token(self) -> None:
        """Read the token again if it was refused; the official client renews only that of a service account."""
        if self._refused:
            self._refused = False
            fresh = await self._configuration()
            self._api.configuration.api_key = fresh.api_key
            self._api.configuration.refresh_api_key_hook = fresh.refresh_api_key_hook

    async def stop(self) -> None:
        """Disconnect."""
        await self._api.close()

    async def request(
        self, method: str, path: str, query: Query = (), body: Any = None, content: str = JSON, accept: str = JSON
    ) -> bytes:
        """Return the answer's body, a JSON object.

        Raises:
            ApiRefusal: the API server refused the request.
            ClusterError: transient: no answer, or an answer of another server, such as a proxy's error page.
        """
        headers = {"Accept": accept, "Content-Type": content}
        async with self._send(method, path, query, headers, body) as response:
            raw = await response.read()
        if not raw.lstrip().startswith(b"{"):
            raise ClusterError(f"the answer to {method} {path} is not JSON: {raw[:80]!r}")
        return raw

    @asynccontextmanager
    async def stream(self, path: str, query: Query, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a streamed answer; it ends after ``silence`` seconds without a byte. Raises as :meth:`request`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=silence)
        headers = {"Accept": JSON, "Content-Type": JSON}
        async with self._send("GET", path, query, headers, timeout=timeout) as response:
            yield response.content

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        headers: dict[str, str],
        body: Any = None,
        timeout: aiohttp.ClientTimeout = _TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            await self._renew_token()
            headers["User-Agent"] = self._user_agent
            await self._api.update_params_for_auth(headers, None, _AUTH, path, method, body)
            url = f"{self._api.configuration.host}{path}{'?' if query else ''}{urlencode(query)}"
            answer = await self._api.call_api(method, url, headers, body, None, timeout)
            response: aiohttp.ClientResponse = answer.response
            try:
                if response.status == 401:
                    self._refused = True
                if response.status >= 400:
                    raise await _refusal(response, f"{method} {path}")
                yield response
            finally:
                response.release()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ClusterError(f"the API server does not answer: {method} {path}: {error!r}") from error
        except ConfigException as error:
            raise ClusterError(f"the API server's credentials are not available: {error}") from error


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Decode an answer to a request to ``path``. Raises a transient ClusterError if it is malformed."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ClusterError(f"the API server's answer to {path} cannot be decoded: {error}") from error


def _proxy_of(url: str) -> str | None:
    """Return the proxy of a server from the environment (HTTPS_PROXY, NO_PROXY)."""
    host, scheme = urlsplit(url).hostname, urlsplit(url).scheme
    return None if host is None or proxy_bypass(host) else getproxies().get(scheme)


def _existing(kubeconfig: str) -> str:
    """Return the path of the kubeconfig, or several as in KUBECONFIG. Raises ConfigException if no file exists."""
    paths = kubeconfig or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    if not any(Path(path).is_file() for path in paths.split(os.pathsep) if path):
        raise ConfigException(f"there is no service account and no kubeconfig {paths}")
    return paths


async def _refusal(response: aiohttp.ClientResponse, what: str) -> Exception:
    raw = await response.read()
    try:
        status = msgspec.json.decode(raw, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        status = _Status(message=raw[:200].decode(errors="replace"))
    if budget := status.budget:
        return ApiRefusal(response.status, BUDGET, budget)
    if response.status >= 500 or response.status in _TRY_AGAIN:
        return ClusterError(f"the API server answered {response.status} to {what}: {status.message or status.reason}")
    if any(cause.reason == NAMESPACE_TERMINATING for cause in status.causes):
        return ApiRefusal(response.status, NAMESPACE_TERMINATING, status.message)
    return ApiRefusal(response.status, status.reason, status.message)
