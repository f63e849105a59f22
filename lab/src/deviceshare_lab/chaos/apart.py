"""Running a function in a child process that ends without giving back its memory.

A history leaves thousands of objects that refer to each other. Finding and freeing them takes an eighth of the time of
the history; the operating system frees the memory of a process at once.
"""

import gc
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")


class ChildFailed(Exception):
    """The child process ended without a result."""


def run_apart(function: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function that a child process runs, or raise its exception. Raises ChildFailed.

    The calling process must have a single thread, since the child is a copy of it.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    with reader:
        process = context.Process(target=_answer, args=(writer, function, *arguments))
        process.start()
        writer.close()
        try:
            result, error = reader.recv()
        except EOFError:
            process.join()
            raise ChildFailed(f"a child process ended with status {process.exitcode}") from None
    process.join()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _answer(writer: Connection, function: Callable[..., T], *arguments: Any) -> None:
    """Send the result or the exception of a function."""
    gc.disable()  # also after the function: what it has left would be visited
    try:
        writer.send((function(*arguments), None))
    except Exception as error:
        writer.send((None, error))
