"""What the columns of a table may hold, as model.json says it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from .constraints import Constraint
from .dates import Calendar
from .errors import ConclaveError

_PATTERN = re.compile(r"([^#]*)(#*)([^#]*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Column:
    """A column. A cell is a number: of a category its place, of an empty cell NaN.

    Attributes
    ----------
    kind : str
        What cells are computed with: continuous, integer, categorical, binary, or text, which has no cells.
    declared : str
        The kind in schema.yaml: the same, or date, datetime, code or identifier.
    lower, upper : float
        The bounds of a number.
    start, resolution, format : str
        Of a date or datetime: the moment of cell 0 (ISO), the unit of a cell, and how its text is written.
    pattern : str
        Of an identifier: how it is written, with # for the digits of a running number.
    codes : str
        Of a code: the name of the list of all codes.
    """

    name: str
    kind: str
    declared: str = ""
    lower: float = 0.0
    upper: float = 1.0
    clip: Optional[Tuple[float, float]] = None
    scale: str = "linear"
    points: Tuple[float, ...] = ()
    categories: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    nullable: bool = False
    role: str = ""
    doc: str = ""
    start: str = ""
    resolution: str = ""
    format: str = ""
    pattern: str = ""
    codes: str = ""

    @property
    def is_number(self) -> bool:
        return self.kind in ("continuous", "integer")

    @property
    def calendar(self) -> Optional[Calendar]:
        """How cells of a date or datetime are moments; None of other columns."""
        if self.declared not in ("date", "datetime"):
            return None
        return Calendar(self.start, self.resolution, self.format)

    def range(self) -> Tuple[float, float]:
        """The least and the largest cell."""
        if self.clip is not None:
            return self.clip
        if self.kind == "categorical":
            return 0.0, float(len(self.categories) - 1)
        return self.lower, self.upper

    def cell(self, text: str) -> float:
        """The cell of a text as it stands in a CSV file.

        Raises
        ------
        ConclaveError
            Where the column cannot hold it.
        """
        if text == "":
            if self.nullable:
                return math.nan
            raise ConclaveError(f'column "{self.name}" has no empty cells; ask for a value')
        if self.kind == "categorical":
            if text not in self.categories:
                raise ConclaveError(f'column "{self.name}" has no value {text!r}; it has {_listed(self.categories)}')
            return float(self.categories.index(text))
        if self.calendar is not None:
            value = self.calendar.cell(text, self.name)
        elif _NUMBER.fullmatch(text) and math.isfinite(float(text)):
            value = float(text)
        else:
            raise ConclaveError(f'column "{self.name}" has numbers, and {text!r} is none; write a plain decimal number')
        if self.kind != "continuous" and value != math.trunc(value):
            raise ConclaveError(f'column "{self.name}" has whole numbers, and {text!r} is none; round it')
        if self.clip is not None:
            return min(max(value, self.clip[0]), self.clip[1])
        if not self.lower <= value <= self.upper:
            raise ConclaveError(f'{text} is outside the bounds of column "{self.name}"; ask for a value within them')
        return value

    def made_up(self, first: int, count: int) -> List[str]:
        """Identifiers that nobody has: running numbers as the column writes them."""
        numbers = range(first, first + count)
        if self.kind == "text":
            before, digits, after = _PATTERN.fullmatch(self.pattern).groups()  # type: ignore[union-attr]
            return [f"{before}{i + 1:0{len(digits)}}{after}" for i in numbers]
        lo, hi = self.range()
        if self.kind == "continuous":
            return [repr(lo + (hi - lo) * math.fmod(i / (1 << 20), 1)) for i in numbers]
        values = [int(lo + i % int(hi - lo + 1)) for i in numbers]
        return [self.categories[v] if self.kind == "categorical" else str(v) for v in values]


def _listed(categories: Tuple[str, ...]) -> str:
    return ", ".join(categories[:20]) + (", ..." if len(categories) > 20 else "")


@dataclass(frozen=True)
class Schema:
    """A table: its columns, the label that rows are generated for, and constraints that no row breaks."""

    columns: Tuple[Column, ...]
    constraints: Tuple[Constraint, ...] = ()
    label: str = ""
    positive: str = ""
    name: str = ""
    task: str = "none"
    image: Optional[Dict[str, int]] = None

    @classmethod
    def from_json(cls, resolved: Mapping[str, Any]) -> "Schema":
        """Read the `schema` of a model.json."""
        columns: List[Column] = []
        for one in resolved["columns"]:
            columns.extend(_columns(one))
        constraints = tuple(Constraint.from_json(c, columns) for c in resolved.get("constraints", []))
        return cls(tuple(columns), constraints, resolved.get("label", ""), resolved.get("positive", ""),
                   resolved.get("name", ""), resolved.get("task", "none"), resolved.get("image"))

    def index(self, name: str) -> int:
        """The place of a column; -1 where there is none."""
        return next((i for i, c in enumerate(self.columns) if c.name == name), -1)

    @property
    def label_index(self) -> int:
        """The place of a label that is a class, which networks are asked for; -1 of other labels, and of none."""
        at = self.index(self.label) if self.label else -1
        return at if at >= 0 and self.columns[at].kind in ("categorical", "binary") else -1

    @property
    def classes(self) -> Tuple[str, ...]:
        """The values of such a label."""
        if self.label_index < 0:
            return ()
        label = self.columns[self.label_index]
        return label.categories if label.kind == "categorical" else ("0", "1")

    def learned(self) -> List[int]:
        """The places of the columns that models draw cells of: others have made-up identifiers."""
        return [i for i, c in enumerate(self.columns) if c.role != "unit" and c.kind != "text"]

    def broken(self, cells: np.ndarray) -> np.ndarray:
        """The number, from 1, of the first constraint that each row breaks; 0 for none."""
        out = np.zeros(len(cells), dtype=int)
        for number, constraint in enumerate(self.constraints, 1):
            out[(out == 0) & constraint.breaks(cells)] = number
        return out

    def move(self, cells: np.ndarray, always: bool) -> None:
        """Change rows, in place, as the constraints that they break say."""
        for constraint in self.constraints:
            if constraint.move or always:
                constraint.apply(cells, constraint.breaks(cells))


def _columns(one: Mapping[str, Any]) -> List[Column]:
    known = {f.name for f in fields(Column)}
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in one.items() if k in known}
    given.setdefault("declared", given["kind"])
    column = Column(**given)
    if not one.get("repeat"):
        return [column]
    return [Column(**{**given, "name": f"{column.name}_{i}"}) for i in range(one["repeat"])]
