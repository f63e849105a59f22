"""The Secrets of an installation as files, as pods see them, and the bus with the configuration of the chart."""

import re
from pathlib import Path

from deviceshare_cli import natsserver
from deviceshare_cli.credentials import files
from support import deploy

CREDENTIALS = "deviceshare-"


class Installation:
    """New credentials in a directory; each service has a directory with the Secrets that its pod mounts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.credentials = directory / "credentials"
        files.write(self.credentials, ("localhost", "127.0.0.1"))

    def of(self, service: str) -> Path:
        """Return the directory in place of /etc/deviceshare in the pod of a service."""
        place = self._directory / "mounts" / service
        place.mkdir(parents=True, exist_ok=True)
        for name, secret in deploy.mounts(service).items():
            link = place / name
            if not link.exists():
                link.symlink_to(self.credentials / secret.removeprefix(CREDENTIALS).removeprefix("bus-"))
        return place

    def bus(self, name: str) -> natsserver.NatsServer:
        """Return a nats-server with the ConfigMap of the manifests, on free ports of loopback."""
        server = natsserver.prepare(name, self._directory)
        home = self._directory / name
        monitor = re.findall(r'^http: "([^"]+)"$', (home / "nats-server.conf").read_text(), re.MULTILINE)[0]
        (secret,) = (home / "secret",)
        secret.symlink_to(self.credentials / files.SERVER)
        for file, text in self._configuration().items():
            for old, new in (
                ('"0.0.0.0:4222"', f'"{server.url.removeprefix("nats://")}"'),
                ('"127.0.0.1:8222"', f'"{monitor}"'),
                ('"/data"', f'"{home}/store"'),
                ("10GB", "1GB"),
                ("/etc/nats/", f"{home}/"),
            ):
                text = text.replace(old, new)
            (home / file).write_text(text)
        (home / "nats-server.conf").write_text('include "nats-users.conf"\n')
        return server

    def _configuration(self) -> dict[str, str]:
        (found,) = [o for o in deploy.everything() if (o["kind"], o["metadata"]["name"]) == ("ConfigMap", "bus")]
        configuration: dict[str, str] = found["data"]
        return configuration
