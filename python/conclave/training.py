"""Trains a model on rows that stay on this machine."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Union

import numpy as np
import pandas as pd

from . import program
from .conditions import cell_text
from .errors import ConclaveError
from .model import Model
from .yaml_text import yaml_text


def fit(table: Union[pd.DataFrame, program.PathLike], schema: Union[Mapping[str, Any], program.PathLike],
        epsilon: float, *, delta: Optional[float] = None, label: Optional[str] = None, pipeline: Optional[str] = None,
        out: Optional[program.PathLike] = None, rows: Optional[int] = None, seed: Optional[int] = None,
        binary: Optional[program.PathLike] = None, **options: Any) -> Model:
    """Train a model with `conclave local`. Its progress and warnings go to standard error.

    Parameters
    ----------
    table : DataFrame or path
        The rows: in memory, or a file that the program reads.
    schema : dict, path or str
        What columns may hold, as docs/schema.md has it: a dict, a file, or the text of one.
    epsilon, delta : float
        What the run may cost. Without delta the program says whether it can do without.
    label : str, optional
        The column that rows are generated for, where the schema does not say.
    pipeline, rows, seed : optional
        Fields of run.yaml: `pipeline`, `release.rows` and `seed`.
    out : path, optional
        A new or empty folder for run.yaml and, in `result`, all that the run makes. Without it, a folder for temporary
        files; standard error names it.
    binary : path, optional
        The program; else it is that of the environment variable CONCLAVE_BINARY, or of PATH.
    **options
        Further fields of run.yaml, as dicts: privacy={"unit": "patient"}, marginals={"cells": 16}.

    Returns
    -------
    Model
        Of the model in `out`/result/model.

    Raises
    ------
    ConclaveError
        With the message of the program. A copy of the rows that was made is removed in any case.
    """
    path = program.find(binary)
    folder = _folder(out)
    run: Dict[str, Any] = {"name": "fit", "schema": _schema(schema, label, folder)}
    data = folder / "rows.csv" if isinstance(table, pd.DataFrame) else Path(os.path.abspath(os.fspath(table)))
    run["data"] = [{"file": str(data), **site} for site in options.pop("data", [{"site": "here"}])]
    run["privacy"] = {"epsilon": epsilon, **({} if delta is None else {"delta": delta}), **options.pop("privacy", {})}
    run["release"] = {**({} if rows is None else {"rows": rows}), **options.pop("release", {})}
    run.update({k: v for k, v in (("pipeline", pipeline), ("seed", seed)) if v is not None})
    run.update(options)
    _private(folder / "run.yaml", yaml_text({k: v for k, v in run.items() if v != {}}))
    try:
        if isinstance(table, pd.DataFrame):
            _write_rows(table, data)
        program.call(path, ["local", "--run", str(folder / "run.yaml"), "--out", str(folder / "result"), "--format",
                            "json"], show=True)
    finally:
        if isinstance(table, pd.DataFrame) and data.exists():
            data.unlink()
    if out is None:
        sys.stderr.write(f"the results are kept in {folder}\n")
    return Model.load(folder, binary=path)


def _folder(out: Optional[program.PathLike]) -> Path:
    if out is None:
        return Path(tempfile.mkdtemp(prefix="conclave-"))
    folder = Path(os.path.abspath(os.fspath(out)))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConclaveError(f"{folder} is not an empty folder; name another one by out=")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _schema(schema: Union[Mapping[str, Any], program.PathLike], label: Optional[str], folder: Path) -> str:
    """The path of the schema, which is written to the folder where it is no file as it is."""
    if isinstance(schema, Mapping):
        if label is not None and schema.get("label", label) != label:
            raise ConclaveError(_LABELLED)
        text = yaml_text({**schema, **({} if label is None else {"label": label})})
    elif isinstance(schema, str) and "\n" in schema:
        text = _labelled(schema, label)
    else:
        source = Path(os.path.abspath(os.fspath(schema)))
        if label is None:
            return str(source)
        try:
            text = _labelled(source.read_text("utf-8-sig"), label)
        except (OSError, UnicodeDecodeError) as error:
            raise ConclaveError(f"{source}: cannot read the schema ({error}); check the path") from None
    _private(folder / "schema.yaml", text)
    return str(folder / "schema.yaml")


_LABELLED = "the schema names a label of its own; leave label= out, or change the schema"


def _labelled(text: str, label: Optional[str]) -> str:
    """The text of a schema with a label."""
    if label is None:
        return text
    if re.search(r"^label\s*:", text, re.MULTILINE):
        raise ConclaveError(_LABELLED)
    return yaml_text({"label": label}) + text


def _write_rows(table: pd.DataFrame, path: Path) -> None:
    """Write a CSV file that nobody else can read. Moments are written as ISO 8601 has them."""
    columns = []
    for place, name in enumerate(table.columns):
        of = table.iloc[:, place]
        if isinstance(of.dtype, pd.DatetimeTZDtype):
            raise ConclaveError(f'column "{name}" has a time zone, which a schema does not know; use '
                                ".dt.tz_convert(...) and .dt.tz_localize(None)")
        codes, distinct = pd.factorize(of)
        columns.append(np.array([*map(cell_text, distinct), ""], dtype=object)[codes])  # -1 of what is missing
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(zip(*columns))
    _private(path, text.getvalue())


def _private(path: Path, text: str) -> None:
    """Write a new file that its owner alone can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline="") as f:
        f.write(text)
