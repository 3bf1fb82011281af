"""Locks in processes that fork: a child has only the thread that forked, so nobody would release what others hold."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> Any:
    """A reentrant lock that is free in a forked process."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_locks() -> None:
    for lock in _locks:
        lock._at_fork_reinit()  # as the standard library does with its own


def wait_before_fork(lock: Any) -> None:
    """Let no process fork while another thread holds ``lock``: what it guards would be half done in the child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)
