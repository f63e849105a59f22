"""Keys of the live table: a filter, a selected group of pending pods, its explanation. The terminal is restored."""

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from typing import Literal, get_args

HELP = "/ filter  j k select  e explain  n p page of nodes  s sort  v events  Ctrl-C ends"
_ENTER, _ESCAPE, _BACKSPACE = ("\r", "\n"), "\x1b", ("\x7f", "\b")
_ARROWS = {"\x1b[A": "k", "\x1b[B": "j"}
MAX_FILTER = 60
NodeOrder = Literal["free", "used", "name"]
ORDERS: tuple[NodeOrder, ...] = get_args(NodeOrder)


class Keys:
    """What the keys have chosen.

    ``changed`` is called after each key. ``wanted`` filters nodes and pods; ``selected`` is the position of a group of
    pending pods, which the table limits; ``explaining``: whether its explanation is shown; ``page`` of the nodes, which
    the table limits, in the order ``orders[0]``; ``events``: whether these are shown in place of the last placements.
    """

    def __init__(self) -> None:
        self.wanted = ""
        self.typing = False
        self.selected = 0
        self.explaining = False
        self.page = 0
        self.orders = list(ORDERS)
        self.events = False
        self.changed: Callable[[], None] = lambda: None

    @property
    def line(self) -> str:
        """The line that shows the keys, or the filter."""
        if self.typing:
            return f"filter: {self.wanted}▏ (Enter keeps it, Esc removes it)"
        return f"filter: {self.wanted}  {HELP}" if self.wanted else HELP

    def limit_page(self, pages: int) -> None:
        """Show the last of so many pages in place of one after it."""
        self.page = min(self.page, pages - 1)

    def press(self, key: str) -> None:
        """Apply a key, or the sequence of characters of one."""
        if self.typing:
            self._type(key)
        else:
            match _ARROWS.get(key, key):
                case "/":
                    self.typing = True
                case "j":
                    self.selected += 1
                case "k":
                    self.selected = max(0, self.selected - 1)
                case "e":
                    self.explaining = not self.explaining
                case "n":
                    self.page += 1
                case "p":
                    self.page = max(0, self.page - 1)
                case "s":
                    self.page, self.orders = 0, [*self.orders[1:], self.orders[0]]
                case "v":
                    self.events = not self.events
                case "\x1b":
                    self.wanted, self.explaining = "", False
        self.changed()

    def _type(self, key: str) -> None:
        if key in _ENTER:
            self.typing = False
        elif key == _ESCAPE:
            self.typing, self.wanted = False, ""
        elif key in _BACKSPACE:
            self.wanted = self.wanted[:-1]
        elif key.isprintable():
            self.wanted = (self.wanted + key)[:MAX_FILTER]
        self.selected = self.page = 0

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read keys from the terminal meanwhile; does nothing if stdin is none. Ctrl-C still interrupts."""
        if not sys.stdin.isatty():
            yield
            return
        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
        before = termios.tcgetattr(stdin)
        tty.setcbreak(stdin)

        def read() -> None:
            data = os.read(stdin, 64).decode(errors="ignore")
            if not data:
                loop.remove_reader(stdin)
            elif data.startswith(_ESCAPE):
                self.press(data)
            else:
                for key in data:
                    self.press(key)

        loop.add_reader(stdin, read)
        try:
            yield
        finally:
            loop.remove_reader(stdin)
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
