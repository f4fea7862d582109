"""Schemas and the metadata of SDV (single table, version 1), one from the other.

SDV's metadata has no bounds and no categories. They become TODO, which a run refuses: write public ones.
"""

from __future__ import annotations

import json
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
    if not isinstance(metadata, Mapping):
        try:
            metadata = json.loads(Path(metadata).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConclaveError(f"{metadata}: cannot read SDV's metadata ({error}); name a JSON file of it") from None
    tables = metadata.get("tables")
    if isinstance(tables, Mapping):
        if len(tables) != 1:
            raise ConclaveError(f"the metadata has {len(tables)} tables; a schema is about one: pass that of one table")
        metadata = next(iter(tables.values()))
    if not isinstance(metadata.get("columns"), Mapping) or not metadata["columns"]:
        raise ConclaveError("the metadata has no columns; pass what metadata.to_dict() gives")
    columns: List[Dict[str, Any]] = []
    ignored: List[str] = []
    for name, of in metadata["columns"].items():
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
        pattern = re.sub(r"(\[0-9\]|\\d)(\{(\d+)\})?", lambda m: "#" * int(m.group(3) or 1), of.get("regex_format", ""))
        plain = "#" in pattern and re.fullmatch(r"[\w #:/-]+", pattern)
        return {"kind": "identifier", **({"pattern": pattern} if plain else {})}
    raise ConclaveError(f'column "{name}" is of type {sdtype}, which a schema has not; mark it pii to keep it at home, '
                        "or choose numerical, categorical, boolean, datetime or id")


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
        For SDV's `load_from_dict`, of a single table.
    """
    columns: Dict[str, Any] = {}
    out: Dict[str, Any] = {"METADATA_SPEC_VERSION": _VERSION, "columns": columns}
    for name in schema.get("ignore", []):
        columns[name] = {"sdtype": "text", "pii": True}
    for of in schema["columns"]:
        copies = of.get("repeat")
        names = [of["name"]] if copies is None else [f"{of['name']}_{i}" for i in range(copies)]
        for name in names:
            columns[name] = _sdtype(of)
        if of.get("role") == "unit":
            out["sequence_key"] = of["name"]
    return out


def _sdtype(of: Mapping[str, Any]) -> Dict[str, Any]:
    kind = of.get("kind")
    if of.get("role") == "unit":
        return {"sdtype": "id"}
    if kind == "identifier":
        pattern = of.get("pattern")
        return {"sdtype": "id"} if not pattern else {
            "sdtype": "id", "regex_format": re.sub("#+", lambda m: f"[0-9]{{{len(m.group())}}}", pattern)}
    if kind in ("date", "datetime"):
        form = of.get("format", "YYYY-MM-DD" if kind == "date" else "YYYY-MM-DD hh:mm")
        letters = {v: k for k, v in _LETTERS.items()}
        return {"sdtype": "datetime",
                "datetime_format": re.sub("YYYY|MM|DD|hh|mm|ss|M|D", lambda m: letters[m.group()], form)}
    if kind in ("integer", "continuous"):
        return {"sdtype": "numerical", "computer_representation": "Int64" if kind == "integer" else "Float"}
    return {"sdtype": "boolean" if kind == "binary" else "categorical"}
