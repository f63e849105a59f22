"""A headless Chromium of this machine, driven by playwright."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from deviceshare_cli.errors import CommandError

if TYPE_CHECKING:
    from playwright.async_api import Browser

VARIABLE = "DEVICESHARE_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the path of Chromium: the variable's, else the first one in PATH."""
    return os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, _NAMES)), None)


@asynccontextmanager
async def chromium() -> AsyncIterator["Browser"]:
    """Start Chromium, and end it.

    Raises:
        CommandError: playwright or Chromium is not installed.
    """
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        raise CommandError("`lab bench ui` needs the Python package playwright, which `make setup` installs") from None
    path = find_chromium()
    if path is None:
        raise CommandError(f"`lab bench ui` needs Chromium (Debian: apt-get install chromium) in PATH or in {VARIABLE}")
    # Chromium's sandbox refuses to run as root, as in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
