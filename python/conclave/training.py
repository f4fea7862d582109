"""Trains a model on rows that stay on this machine."""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

import numpy as np
import pandas as pd

from . import program
from .conditions import cell_text
from .errors import HALF, ConclaveError
from .model import Model
from .signals import ends_in_order, held
from .written import Folder, schema_file


def fit(table: Union[pd.DataFrame, program.PathLike], schema: Union[Mapping[str, Any], program.PathLike],
        epsilon: float, *, delta: Optional[float] = None, records: Optional[int] = None, label: Optional[str] = None,
        pipeline: Optional[str] = None, out: Optional[program.PathLike] = None, rows: Optional[int] = None,
        seed: Optional[int] = None, binary: Optional[program.PathLike] = None, **options: Any) -> Model:
    """Train a model with `conclave local`. Its progress and warnings go to standard error.

    Parameters
    ----------
    table : DataFrame or path
        The rows: in memory, or a file that the program reads.
    schema : dict, path or str
        What columns may hold, as docs/schema.md has it: a dict, a file, or the text of one. Lists of codes lie beside
        the file; of a dict or a text their paths count from the working folder.
    epsilon, delta : float
        What the run may cost.
    records : int, optional
        The public number of privacy units, by which delta is chosen where it is left out. Do not count it in the data.
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
        With the message of the program. A copy of the rows that was made is removed in any case, and where there is no
        result yet all that was written.
    """
    path = program.find(binary)
    framed = isinstance(table, pd.DataFrame)
    if not framed and not isinstance(table, (str, os.PathLike)):
        raise ConclaveError(f"the table is a {type(table).__name__}; pass a DataFrame or the path of a file")
    run: Dict[str, Any] = {"name": "fit", "schema": "", "data": _sites(options.pop("data", [{"site": "here"}]))}
    run["privacy"] = _once("privacy", {"epsilon": epsilon, "delta": delta, "records": records}, options)
    run["release"] = _once("release", {"rows": rows}, options)
    run.update({k: v for k, v in (("pipeline", pipeline), ("seed", seed)) if v is not None})
    run.update(options)
    folder = Folder(out)
    data = folder.path / "rows.csv" if framed else Path(os.path.abspath(os.fspath(table)))
    run["data"] = [{"file": str(data), **site} for site in run["data"]]
    rows_at: Optional[int] = None
    with ends_in_order():
        try:
            run["schema"] = schema_file(schema, label, folder)
            folder.write_yaml("run.yaml", {k: v for k, v in run.items() if v != {}})
            if framed:
                rows_at = folder.write_unnamed("rows.csv", _csv(table))
            program.call(path, ["local", "--run", str(folder.path / "run.yaml"), "--out", str(folder.path / "result"),
                                "--format", "json"], show=True, renamed=_renamed(folder.path, framed),
                         inherits=[] if rows_at is None else [rows_at])
        except BaseException as error:
            with held():
                folder.clear_without_result()
            if framed and isinstance(error, ConclaveError):
                raise ConclaveError(f"{error}{_hint(table, str(error))}") from None
            raise
        finally:
            with held():
                folder.remove("rows.csv")
                if rows_at is not None:
                    os.close(rows_at)
    if out is None:
        sys.stderr.write(f"the results are kept in {folder.path}\n")
    return Model.load(folder.path, binary=path)


def _once(name: str, given: Mapping[str, Any], options: Dict[str, Any]) -> Dict[str, Any]:
    """The fields of a part of run.yaml, by arguments and by options. None may be given by both."""
    more = options.pop(name, {})
    if not isinstance(more, Mapping):
        raise ConclaveError(f"{name}= is a {type(more).__name__}; pass a dict with the fields of run.yaml")
    given = {k: v for k, v in given.items() if v is not None}
    twice = [k for k in given if k in more]
    if twice:
        raise ConclaveError(f"{name}.{twice[0]} is given twice, as {twice[0]}= too; leave one of them out")
    return {**given, **more}


def _sites(data: Any) -> List[Mapping[str, Any]]:
    if not isinstance(data, (list, tuple)) or not all(isinstance(site, Mapping) for site in data):
        raise ConclaveError('data= is no list of dicts; write [{"site": "a", "share": 0.5}, ...]')
    if any("file" in site for site in data):
        raise ConclaveError("data= names a file, and the table is another one; leave file out, or use `conclave local`")
    return list(data)


def _csv(table: pd.DataFrame) -> str:
    """The text of a CSV file. Moments are written as ISO 8601 has them."""
    if table.columns.nlevels > 1:
        raise ConclaveError("the DataFrame's columns have names of several levels; give each one text, as by "
                            'table.columns = ["_".join(names) for names in table.columns]')
    if not len(table.columns):
        raise ConclaveError("the DataFrame has no columns; the index is none, use table.reset_index() where it holds "
                            "them")
    columns = []
    for place, name in enumerate(table.columns):
        of = table.iloc[:, place]
        if isinstance(of.dtype, pd.DatetimeTZDtype):
            raise ConclaveError(f'column "{name}" has a time zone, which a schema does not know; use '
                                ".dt.tz_convert(...) and .dt.tz_localize(None)")
        try:
            codes, distinct = pd.factorize(of)
        except TypeError:
            raise ConclaveError(f'column "{name}" has cells that are no single values, such as lists or dicts; write '
                                "a number, a text or a moment in each") from None
        texts = [*map(cell_text, distinct), ""]
        if HALF.search("".join(texts)):
            raise ConclaveError(f'column "{name}" has a text with half a character (a lone surrogate); correct it')
        columns.append(np.array(texts, dtype=object)[codes])  # -1 of what is missing
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(zip(*columns))
    return text.getvalue()


def _renamed(folder: Path, framed: bool) -> Dict[str, str]:
    """What the program says of files that were written for it, and what it means."""
    data = folder / "rows.csv"
    rows = {f"{data}, line 1,": "the DataFrame,", f"{data}, line 1:": "the DataFrame:", str(data): "the DataFrame",
            "start the file with a header line": "rename its columns", "from the file": "from the DataFrame",
            "to the file": "to the DataFrame"}
    return {str(folder / "run.yaml"): "run.yaml", str(folder / "schema.yaml"): "the schema", **(rows if framed else {})}


def _hint(table: pd.DataFrame, message: str) -> str:
    """What is the matter with a DataFrame, where the program cannot know it."""
    names = [n for n in table.index.names if n is not None and n not in table.columns and f'"{n}"' in message]
    if names:
        return "; the DataFrame has it as its index: use table.reset_index()"
    if "column name" in message and not all(isinstance(name, str) for name in table.columns):
        return f'; the DataFrame\'s columns are named {", ".join(map(str, table.columns[:3]))}, ...: set table.columns'
    return ""
