"""TokenReview and SubjectAccessReview: whose token it is, and what a user may read.

Sources: k8s.io/api authentication/v1 and authorization/v1; which attributes are reviewed: kube-rbac-proxy, and kubelet
for ``/metrics``.
"""

from typing import Any, Self

import msgspec
from deviceshare.model import ConfigError
from deviceshare_bus.web import ReviewError, User

from deviceshare_cluster.interface import ClusterError
from deviceshare_cluster.kube.client import ApiRefusal, KubeClient

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_KEYS = "authentication.kubernetes.io/"
"""The prefix of what describes the token and not the user: ids of the token, its pod and node (Kubernetes
pkg/apis/authentication)."""


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class KubeReviewer:
    """Implements :class:`deviceshare_bus.web.Reviewer`. Use as an async context manager."""

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        self._api = KubeClient(kubeconfig, context, user_agent="deviceshare-reviews")

    async def __aenter__(self) -> Self:
        """Find the API server. Raises ConfigError."""
        try:
            await self._api.start()
        except ClusterError as error:
            raise ConfigError("HTTP", "--http-access", "kubernetes", f"a cluster to ask ({error})") from error
        return self

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        await self._api.stop()

    async def user(self, token: str) -> User | None:
        """Return whose token it is, None if it is not valid. Raises ReviewError."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._create(_TOKENS, body, _TokenReview)).status
        if not status.authenticated or not status.user.username:
            return None
        user = status.user
        # Each token of an account has other values of these, by which it would be another user with other reviews.
        given = ((key, tuple(values)) for key, values in user.extra.items() if not key.startswith(_KEYS))
        extra = tuple(sorted(given))
        return User(user.username, user.uid, tuple(user.groups), extra)

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        """Return whether a user may list the pods of a namespace, '' for all of them. Raises ReviewError."""
        attributes = {"verb": "list", "version": "v1", "resource": "pods", "namespace": namespace}
        return await self._may(user, {"resourceAttributes": attributes})

    async def may_get(self, user: User, path: str) -> bool:
        """Return whether a user may get a non-resource URL. Raises ReviewError."""
        return await self._may(user, {"nonResourceAttributes": {"verb": "get", "path": path}})

    async def _may(self, user: User, attributes: dict[str, Any]) -> bool:
        subject = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": subject | attributes}
        return bool((await self._create(_ACCESS, body, _AccessReview)).status.allowed)

    async def _create(self, path: str, body: Any, answer: Any) -> Any:
        try:
            return msgspec.json.decode(await self._api.request("POST", path, body=body), type=answer)
        except (ApiRefusal, ClusterError) as error:
            raise ReviewError(str(error)) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ReviewError(f"the answer to POST {path} cannot be decoded: {error}") from error
