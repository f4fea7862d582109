"""The error of this package."""

from __future__ import annotations


class ConclaveError(Exception):
    """What is wrong, and what to do. Where a program said so, it is the message of that program."""
