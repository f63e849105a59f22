"""HTTP servers of the services: who may read them, limits of connections, and headers.

Reading order: :mod:`.settings` (the options), :mod:`.reviews` (Kubernetes tokens and permissions, with a cache),
:mod:`.access` (decides about each request), :mod:`.sessions` (logins of browsers), :mod:`.serving` (limits, headers).
"""

from deviceshare_bus.web.access import USER as USER, Access as Access, Refused as Refused, error_answer as error_answer
from deviceshare_bus.web.health import HealthChecks as HealthChecks, health_app as health_app
from deviceshare_bus.web.reviews import (
    MAX_NAMESPACES as MAX_NAMESPACES,
    Reviewer as Reviewer,
    ReviewError as ReviewError,
    Reviews as Reviews,
    User as User,
)
from deviceshare_bus.web.serving import Serving as Serving, body_of as body_of, serve as serve
from deviceshare_bus.web.sessions import Sessions as Sessions
from deviceshare_bus.web.settings import (
    LOOPBACK as LOOPBACK,
    HttpSettings as HttpSettings,
    SecretFile as SecretFile,
    add_http_options as add_http_options,
    http_settings as http_settings,
    is_loopback as is_loopback,
)
