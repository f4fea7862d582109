"""Constraints: what no row breaks, and how a row that breaks one is changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Tuple

import numpy as np

if TYPE_CHECKING:
    from .dates import Calendar
    from .schema import Column


@dataclass(frozen=True)
class Part:
    """A condition on a column: its cell is in one of some ranges, or empty where that is one (None)."""

    column: int
    ranges: Tuple[Optional[Tuple[float, float]], ...]

    @classmethod
    def from_json(cls, part: Mapping[str, Any]) -> "Part":
        return cls(part["column"], tuple(None if r is None else (r[0], r[1]) for r in part["any"]))

    def met(self, cells: np.ndarray) -> np.ndarray:
        of = cells[:, self.column]
        single = [r[0] for r in self.ranges if r is not None and r[0] == r[1]]
        met = np.isin(of, single)
        for r in self.ranges:
            if r is None:
                met |= np.isnan(of)
            elif r[0] != r[1]:
                met |= (of >= r[0]) & (of <= r[1])
        return met

    def first(self) -> float:
        """The value that a row is moved to."""
        return math.nan if self.ranges[0] is None else self.ranges[0][0]


class Constraint:
    """A rule about 2 to 4 columns."""

    move: bool  # a row that breaks it is moved

    @staticmethod
    def from_json(said: Mapping[str, Any], columns: Sequence["Column"]) -> "Constraint":
        """Read one of the `constraints` of a model.json."""
        move = said.get("move", False)
        if "order" in said:
            order = said["order"]
            return Order(move, order["first"], order["second"], order["strict"], columns[order["first"]],
                         columns[order["second"]])
        if "follows" in said:
            f = said["follows"]
            pairs = sorted((_key(a), math.nan if b is None else b) for a, b in f["as"])
            return Follows(move, f["from"], f["column"], tuple(k for k, _ in pairs), tuple(v for _, v in pairs))
        then = Part.from_json(said["then"]) if "then" in said else None
        return Implies(move, tuple(Part.from_json(p) for p in said["when"]), then)

    def breaks(self, cells: np.ndarray) -> np.ndarray:
        """Which rows break it."""
        raise NotImplementedError

    def apply(self, cells: np.ndarray, rows: np.ndarray) -> None:
        """Change some rows, in place, so that they do not break it, where it says how."""
        raise NotImplementedError


def _key(cell: Optional[float]) -> float:
    return math.inf if cell is None or math.isnan(cell) else cell


@dataclass(frozen=True)
class Implies(Constraint):
    """Broken by rows that meet all of `when` and not `then`; without `then` by all that meet `when`."""

    move: bool
    when: Tuple[Part, ...]
    then: Optional[Part]

    def breaks(self, cells: np.ndarray) -> np.ndarray:
        met = np.ones(len(cells), dtype=bool)
        for part in self.when:
            met &= part.met(cells)
        return met if self.then is None else met & ~self.then.met(cells)

    def apply(self, cells: np.ndarray, rows: np.ndarray) -> None:
        if self.then is not None:
            cells[rows, self.then.column] = self.then.first()


@dataclass(frozen=True)
class Follows(Constraint):
    """Broken by rows whose value of one column is listed, and whose value of the other is not the listed one."""

    move: bool
    source: int
    column: int
    keys: Tuple[float, ...]  # rising, infinity for the empty cell
    values: Tuple[float, ...]

    def _wanted(self, cells: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        of = cells[:, self.source]
        keys = np.where(np.isnan(of), np.inf, of)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(self.keys)[at] == keys, np.asarray(self.values)[at]

    def breaks(self, cells: np.ndarray) -> np.ndarray:
        listed, want = self._wanted(cells)
        have = cells[:, self.column]
        return listed & (have != want) & ~(np.isnan(have) & np.isnan(want))

    def apply(self, cells: np.ndarray, rows: np.ndarray) -> None:
        cells[rows, self.column] = self._wanted(cells[rows])[1]


@dataclass(frozen=True)
class Order(Constraint):
    """Broken by rows whose first number is above the second or, where it is strict, not below it."""

    move: bool
    first: int
    second: int
    strict: bool
    one: "Column"
    other: "Column"

    def _coarser(self) -> Optional["Calendar"]:
        """What dates are compared by: nothing says where in its unit the coarser one is. None of numbers."""
        one, other = self.one.calendar, self.other.calendar
        if one is None or other is None:
            return None
        return other if other.coarser(one) else one

    def breaks(self, cells: np.ndarray) -> np.ndarray:
        a, b, by = cells[:, self.first], cells[:, self.second], self._coarser()
        if by is not None:
            a, b = (by.cells(c.calendar.moments(v)) for c, v in ((self.one, a), (self.other, b)))
        return (a > b) | (a == b) if self.strict else a > b

    def apply(self, cells: np.ndarray, rows: np.ndarray) -> None:
        a, by = cells[rows, self.first], self._coarser()
        if by is not None and self.other.calendar is not None:
            begin = by.moments(by.cells(self.one.calendar.moments(a)) + self.strict)
            least = self.other.calendar.cells(begin)
            least = np.maximum(np.where(self.other.calendar.moments(least) < begin, least + 1, least), 0)
        elif self.other.kind == "integer":
            least = np.floor(a) + 1 if self.strict else np.ceil(a)
        else:
            least = np.nextafter(a, np.inf) if self.strict else a
        fits = least <= self.other.range()[1]
        cells[np.flatnonzero(rows)[fits], self.second] = least[fits]
