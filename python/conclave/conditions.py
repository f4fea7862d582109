"""What rows are to be drawn by: "sex=F", "age>60"."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any, List, Mapping, Sequence, Union

import numpy as np
import pandas as pd

from .errors import ConclaveError
from .schema import Schema

Where = Union[None, str, Sequence[str], Mapping[str, Any]]

_TEXT = re.compile(r"([^=<>]+)(<=|>=|=|<|>)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """A column, one of =, <, <=, > and >=, and a cell as it stands in a CSV file."""

    column: str
    relation: str
    value: str

    def __str__(self) -> str:
        return self.column + self.relation + self.value

    def cell(self, schema: Schema) -> float:
        """The cell that is compared with, of a condition that the schema allows."""
        at = schema.index(self.column)
        if at not in schema.learned():
            raise ConclaveError(f"{self}: the schema has no such column")
        column = schema.columns[at]
        want = column.cell(self.value)
        if np.isnan(want) and self.relation != "=":
            raise ConclaveError(f"{self}: an empty value has no order; use =")
        if column.kind in ("categorical", "binary") and self.relation != "=":
            raise ConclaveError(f"{self}: values of this column have no order; use =")
        return want

    def refuse_spaces(self, schema: Schema) -> None:
        """Refuse spaces around the sign, and !=, where the schema has no column and no value of that spelling."""
        at, name = schema.index(self.column), self.column.strip()
        if at < 0 and name.endswith("!") and schema.index(name[:-1].strip()) >= 0:
            raise ConclaveError(f"{self}: there is no !=; name the values that rows shall have, in a draw for each")
        spaced = schema.index(name) >= 0 if at < 0 else (
            self.value != self.value.strip() and self.value not in schema.columns[at].categories)
        if spaced:
            raise ConclaveError(f"{self}: write it with no spaces around the sign, as "
                                f"{name}{self.relation}{self.value.strip()}")

    def met(self, cell: np.ndarray, want: float) -> np.ndarray:
        """Which cells meet it."""
        if self.relation == "=":
            return (cell == want) | (np.isnan(cell) & np.isnan(want))
        compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
        return compare[self.relation](cell, want)


def conditions(where: Where) -> List[Condition]:
    """Read conditions.

    Parameters
    ----------
    where : str, list of str or dict
        Texts such as "age>60", or columns with the value that they shall have, None for an empty cell.
    """
    if where is None:
        return []
    if isinstance(where, Mapping):
        for name, value in where.items():
            if not pd.api.types.is_scalar(value):
                raise ConclaveError(f"where has no single value for {name!r}; draw rows of each value by itself")
        return [Condition(str(name), "=", cell_text(value)) for name, value in where.items()]
    if not isinstance(where, (str, list, tuple)):
        raise ConclaveError(f'where is a {type(where).__name__}; write a text such as "age>60", a list or a dict')
    out = []
    for text in [where] if isinstance(where, str) else where:
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ConclaveError(f"{text!r} is not a condition; write column=value, column<value or column>value")
        out.append(Condition(*match.groups()))
    return out


def cell_text(value: Any) -> str:
    """A value as it stands in a CSV file: whole numbers without decimals, True as 1, what is missing as nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if value is None or value is pd.NA or value != value:  # NaN and NaT are not equal to themselves
        return ""
    if isinstance(value, (datetime.date, np.datetime64)):
        text = str(value).replace("T", " ")
        return text[: -len(" 00:00:00")] if text.endswith(" 00:00:00") else text
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    return str(value)
