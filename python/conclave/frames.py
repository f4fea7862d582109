"""Rows as a pandas DataFrame: types by the schema, what is empty as missing."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List

import numpy as np
import pandas as pd

from .codes import codes_under
from .dates import parsed
from .schema import Column, Schema


def frame_of_cells(schema: Schema, cells: np.ndarray, folder: Path) -> pd.DataFrame:
    """A DataFrame of cells, shape [rows, columns]; folder is where a list of codes may be.

    Whole numbers are Int64, other ones float64, categories are category, dates datetime64. Identifiers are made up.
    """
    out: Dict[str, object] = {}
    for i, column in enumerate(schema.columns):
        of = cells[:, i]
        if column.role == "unit" or column.kind == "text":
            out[column.name] = _typed(column, column.made_up(0, len(cells)))
        elif column.calendar is not None:
            out[column.name] = _moments(column, column.calendar.moments(of))
        elif column.kind == "categorical":
            out[column.name] = _categories(column, of, folder)
        elif column.kind == "continuous":
            out[column.name] = of.copy()
        else:
            out[column.name] = _whole(of)
    return pd.DataFrame(out)


def frame_of_texts(schema: Schema, texts: pd.DataFrame) -> pd.DataFrame:
    """The same of the texts of a CSV file, all columns being text."""
    return pd.DataFrame({c.name: _typed(c, list(texts[c.name])) for c in schema.columns})


def _typed(column: Column, texts: List[str]):
    if column.calendar is not None:
        return _moments(column, parsed(column.calendar, texts, column.name))
    if column.kind == "text":
        return pd.array([t or pd.NA for t in texts], dtype="string")
    if column.declared == "code":
        return pd.Categorical([t or None for t in texts])
    if column.kind == "categorical":
        return pd.Categorical([t or None for t in texts], categories=list(column.categories))
    numbers = np.array([t or "nan" for t in texts], dtype=float)
    return numbers if column.kind == "continuous" else _whole(numbers)


def _whole(cells: np.ndarray):
    empty = np.isnan(cells)
    return pd.arrays.IntegerArray(np.where(empty, 0, cells).astype(np.int64), empty)


def _moments(column: Column, moments: np.ndarray):
    """datetime64; where the column's bounds are beyond what pandas holds in nanoseconds, texts as the column writes."""
    assert column.calendar is not None
    ends = column.calendar.moments(np.array(column.range()))
    low, high = (np.datetime64(t.to_datetime64(), "s") for t in (pd.Timestamp.min, pd.Timestamp.max))
    if ends[0] > low and ends[1] < high:
        return moments.astype("datetime64[ns]")
    return pd.array([t or pd.NA for t in column.calendar.text(moments)], dtype="string")


def _categories(column: Column, cells: np.ndarray, folder: Path):
    places = np.where(np.isnan(cells), -1, cells).astype(int)
    if not column.codes or not (folder / column.codes).is_file():
        return pd.Categorical.from_codes(places, list(column.categories))
    codes = codes_under(column, folder / column.codes)
    # The codes of a prefix in turn, by the number of the row.
    return pd.Categorical([None if p < 0 else codes[p][row % len(codes[p])] for row, p in enumerate(places)])
