"""Writes YAML: the parts that schema.yaml and run.yaml need. Values are written as JSON, which YAML holds."""

from __future__ import annotations

import datetime
import json
from typing import Any, Mapping

import numpy as np

from .errors import ConclaveError


def yaml_text(document: Mapping[str, Any]) -> str:
    """The text of a mapping: a line for each field, and one for each entry of a list of mappings."""
    lines = []
    for name, value in document.items():
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, Mapping) for v in value):
            lines.append(f"{_scalar(str(name))}:")
            lines.extend(f"  - {_value(v)}" for v in value)
        else:
            lines.append(f"{_scalar(str(name))}: {_value(value)}")
    return "".join(line + "\n" for line in lines)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(k))}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, str) and value.isidentifier() and value.lower() not in _WORDS:
        return value
    if not isinstance(value, (str, bool, int, float)) or value != value or value in (float("inf"), -float("inf")):
        raise ConclaveError(f"a {type(value).__name__} has no place in YAML; use texts, finite numbers, dates, lists "
                            "and dicts")
    return json.dumps(value, ensure_ascii=False)


# Words that are no text in some YAML.
_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"}
