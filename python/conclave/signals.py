"""Signals that end this process: what was begun is put in order first. They come to the main thread alone."""

from __future__ import annotations

import contextlib
import signal
import threading
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional

_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Ended(BaseException):
    """A signal that ends the process came."""


@contextlib.contextmanager
def ends_in_order() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise an exception where they would end the process, and end it afterwards.

    So `finally` is done. What the process has another handler for, or ignores, stays as it is.
    """
    came: List[int] = []

    def end(number: int, frame: Optional[FrameType]) -> None:
        came.append(number)
        raise Ended

    try:
        with _handled(_ENDING, lambda old: end if old == signal.SIG_DFL else None):
            yield
    finally:
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Within it signals with a handler wait, until the function that it gives is called or the context ends."""
    came: List[int] = []
    held_back = contextlib.ExitStack()

    def let() -> None:
        held_back.close()
        while came:
            signal.raise_signal(came.pop(0))

    numbers = [signal.SIGINT, *_ENDING]
    held_back.enter_context(_handled(numbers, lambda old: (lambda number, frame: came.append(number))
                                     if callable(old) else None))
    try:
        yield let
    finally:
        let()


@contextlib.contextmanager
def _handled(numbers: List[int], choose: Callable[[Any], Any]) -> Iterator[None]:
    """Within it signals have the handlers that are chosen by those that they had; None leaves them."""
    before: Dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            old = signal.getsignal(number)
            new = choose(old)
            if new is not None:
                before[number] = old
                signal.signal(number, new)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
