"""HTTP servers of the services: who may read them, limits of connections, and headers.

Reading order: :mod:`.settings` (the options), :mod:`.reviews` (Kubernetes tokens and permissions, with a cache),
:mod:`.access` (decides about each request), :mod:`.sessions` (logins of browsers), :mod:`.serving` (limits, headers).
"""

from deviceshare_bus.web.access import USER, Access, Refused, error_answer
from deviceshare_bus.web.health import HealthChecks, health_app
from deviceshare_bus.web.reviews import MAX_NAMESPACES, Reviewer, ReviewError, Reviews, User
from deviceshare_bus.web.serving import Serving, body_of, serve
from deviceshare_bus.web.sessions import Sessions
from deviceshare_bus.web.settings import (
    LOOPBACK,
    HttpSettings,
    SecretFile,
    add_http_options,
    http_settings,
    is_loopback,
)

__all__ = [
    "LOOPBACK",
    "MAX_NAMESPACES",
    "USER",
    "Access",
    "HealthChecks",
    "HttpSettings",
    "Refused",
    "ReviewError",
    "Reviewer",
    "Reviews",
    "SecretFile",
    "Serving",
    "Sessions",
    "User",
    "add_http_options",
    "body_of",
    "error_answer",
    "health_app",
    "http_settings",
    "is_loopback",
    "serve",
]
