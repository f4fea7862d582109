"""The error of this package, and what texts may not have."""

from __future__ import annotations

import re

HALF = re.compile("[\ud800-\udfff]")  # of a character; it has no place in a file


class ConclaveError(Exception):
    """What is wrong, and what to do. Where a program said so, it is the message of that program."""
