"""Writes YAML: the parts that schema.yaml and run.yaml need. Values are written as JSON, which YAML holds."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any, Mapping

import numpy as np

from .errors import ConclaveError


def yaml_text(document: Mapping[str, Any]) -> str:
    """The text of a mapping: a line for each field, and one for each entry of a list of mappings."""
    lines = []
    for name, value in document.items():
        key = _scalar(str(name), str(name))
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, Mapping) for v in value):
            lines.append(f"{key}:")
            lines.extend(f"  - {_value(v, f'{name}[{i}]')}" for i, v in enumerate(value))
        else:
            lines.append(f"{key}: {_value(value, str(name))}")
    return "".join(line + "\n" for line in lines)


def _value(value: Any, where: str) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(k), where)}: {_value(v, f'{where}.{k}')}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(_value(v, f"{where}[{i}]") for i, v in enumerate(value)) + "]"
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (datetime.date, datetime.datetime)) and value == value:  # NaT is none
        return value.isoformat()
    if isinstance(value, str) and value.isidentifier() and value.lower() not in _WORDS:
        return value
    if not isinstance(value, (str, bool, int, float)) or isinstance(value, float) and not math.isfinite(value):
        what = str(value) if isinstance(value, float) else f"a {type(value).__name__}"
        raise ConclaveError(f"{where}: {what} has no place in YAML; use texts, finite numbers, dates, lists and dicts")
    # A category 2.0 is the cell 2: cells are written so too.
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return json.dumps(int(value) if whole else value, ensure_ascii=False)


# Words that are no text in some YAML.
_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"}
