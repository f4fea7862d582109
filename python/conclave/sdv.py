"""Schemas and the metadata of SDV (single table, version 1), one from the other.

SDV's metadata has no bounds and no categories. They become TODO, which a run refuses: write public ones.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Union

from .errors import ConclaveError
from .program import PathLike

TODO = "TODO"
_VERSION = "SINGLE_TABLE_V1"
# strptime's letters and those of a schema.
_LETTERS = {"%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "hh", "%M": "mm", "%S": "ss", "%-m": "M", "%-d": "D"}


def schema_from_sdv(metadata: Union[Mapping[str, Any], PathLike]) -> Dict[str, Any]:
    """A schema of metadata.

    Parameters
    ----------
    metadata : dict or path
        What SDV's `metadata.to_dict()` gives, or a JSON file of it.

    Returns
    -------
    dict
        For `fit`, once each "TODO" in it is replaced. Columns that SDV calls personal are under `ignore`: they stay at
        home. The values of `id` columns are made up anew; a `sequence_key` becomes the privacy unit.

    Raises
    ------
    ConclaveError
        For metadata of several tables, and for a type or a format of dates that a schema has not.
    """
    if isinstance(metadata, (str, os.PathLike)):
        try:
            metadata = json.loads(Path(metadata).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConclaveError(f"{metadata}: cannot read SDV's metadata ({error}); name a JSON file of it") from None
    if not isinstance(metadata, Mapping):
        raise ConclaveError(f"the metadata is a {type(metadata).__name__}; pass what metadata.to_dict() gives, or the "
                            "path of a JSON file of it")
    tables = metadata.get("tables")
    if isinstance(tables, Mapping):
        if len(tables) != 1:
            raise ConclaveError(f"the metadata has {len(tables)} tables; a schema is about one: pass that of one table")
        metadata = next(iter(tables.values()))
    of_columns = metadata.get("columns") if isinstance(metadata, Mapping) else None
    if not isinstance(of_columns, Mapping) or not of_columns or not all(
            isinstance(of, Mapping) for of in of_columns.values()):
        raise ConclaveError("the metadata has no columns; pass what metadata.to_dict() gives")
    columns: List[Dict[str, Any]] = []
    ignored: List[str] = []
    for name, of in of_columns.items():
        if name == metadata.get("sequence_key"):
            columns.append({"name": name, "role": "unit"})
        elif of.get("pii") and of.get("sdtype") != "id":
            ignored.append(name)
        else:
            columns.append({"name": name, **_column(name, of)})
    return {**({"ignore": ignored} if ignored else {}), "columns": columns}


def _column(name: str, of: Mapping[str, Any]) -> Dict[str, Any]:
    sdtype = of.get("sdtype")
    bounds = {"lower": TODO, "upper": TODO, "source": TODO}
    if sdtype == "numerical":
        whole = "int" in of.get("computer_representation", "Float").lower()
        return {"kind": "integer" if whole else "continuous", **bounds}
    if sdtype == "categorical":
        return {"kind": "categorical", "categories": TODO, "source": TODO}
    if sdtype == "boolean":
        return {"kind": "binary"}
    if sdtype == "datetime":
        form = _format(name, of.get("datetime_format", "%Y-%m-%d"))
        return {"kind": "datetime" if "hh" in form else "date", **bounds, "format": form}
    if sdtype == "id":
        pattern = _pattern(of.get("regex_format", ""))
        return {"kind": "identifier", **({"pattern": pattern} if pattern else {})}
    raise ConclaveError(f'column "{name}" is of type {sdtype}, which a schema has not; mark it pii to keep it at home, '
                        "or choose numerical, categorical, boolean, datetime or id")


# A part of a regular expression: digits, or one character, which is itself.
_PART = re.compile(r"(?P<digit>\[0-9\]|\\d)(\{(?P<times>\d{1,2})\})?|\\(?P<escaped>[^\w\r\n#])"
                   r"|(?P<plain>[^\r\n#\\.^$*+?{}\[\]|()])")
_MOST_DIGITS = 18


def _pattern(regex: str) -> str:
    """The pattern of identifiers that a regular expression describes; "" where it has not one row of digits."""
    out, at = "", 0
    while at < len(regex):
        part = _PART.match(regex, at)
        if part is None:
            return ""
        at = part.end()
        out += part["escaped"] or part["plain"] or "#" * int(part["times"] or 1)
    rows = re.findall("#+", out)
    return out if len(rows) == 1 and len(rows[0]) <= _MOST_DIGITS else ""


def _regex(pattern: str) -> str:
    """The regular expression of a pattern."""
    plain = re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", pattern)
    return re.sub("#+", lambda m: f"[0-9]{{{len(m.group())}}}", plain)


def _format(name: str, form: str) -> str:
    out = re.sub(r"%-?[a-zA-Z]", lambda m: _LETTERS.get(m.group(), m.group()), form)
    if "%" in out:
        raise ConclaveError(f'column "{name}" has the format {form}; a schema writes {", ".join(_LETTERS)} alone: '
                            "write dates so, or drop the column")
    return out


def schema_to_sdv(schema: Mapping[str, Any]) -> Dict[str, Any]:
    """Metadata of a schema.

    Parameters
    ----------
    schema : dict
        As for `fit`. Bounds, categories and constraints have no place in the metadata.

    Returns
    -------
    dict
        For SDV's `load_from_dict`, of a single table. The only identifier is the primary key; columns under `ignore`
        come last.

    Raises
    ------
    ConclaveError
        For what is no such dict.
    """
    if not isinstance(schema, Mapping) or not isinstance(schema.get("columns"), (list, tuple)) or not all(
            isinstance(of, Mapping) and "name" in of for of in schema["columns"]):
        raise ConclaveError("the schema is no dict with a list of columns, each a dict with a name; pass what `fit` "
                            "takes as a dict")
    columns: Dict[str, Any] = {}
    out: Dict[str, Any] = {"METADATA_SPEC_VERSION": _VERSION, "columns": columns}
    for of in schema["columns"]:
        copies = of.get("repeat")
        names = [of["name"]] if copies is None else [f"{of['name']}_{i}" for i in range(copies)]
        for name in names:
            columns[name] = _sdtype(of)
        if of.get("role") == "unit":
            out["sequence_key"] = of["name"]
    names = [of["name"] for of in schema["columns"] if of.get("kind") == "identifier" and of.get("role") != "unit"]
    if len(names) == 1:
        out["primary_key"] = names[0]
    for name in schema.get("ignore", []):
        columns[name] = {"sdtype": "text", "pii": True}
    return out


def _sdtype(of: Mapping[str, Any]) -> Dict[str, Any]:
    kind = of.get("kind")
    if of.get("role") == "unit":
        return {"sdtype": "id"}
    if kind == "identifier":
        pattern = of.get("pattern")
        return {"sdtype": "id"} if not pattern else {
            "sdtype": "id", "regex_format": _regex(pattern)}
    if kind in ("date", "datetime"):
        form = of.get("format", "YYYY-MM-DD" if kind == "date" else "YYYY-MM-DD hh:mm")
        letters = {v: k for k, v in _LETTERS.items()}
        return {"sdtype": "datetime",
                "datetime_format": re.sub("YYYY|MM|DD|hh|mm|ss|M|D", lambda m: letters[m.group()], form)}
    if kind in ("integer", "continuous"):
        return {"sdtype": "numerical", "computer_representation": "Int64" if kind == "integer" else "Float"}
    return {"sdtype": "boolean" if kind == "binary" else "categorical"}
