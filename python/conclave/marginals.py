"""Models of the pipeline `marginals`: a tree of cells, the shares of fine cells in them, and values of these."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .conditions import Condition
from .errors import ConclaveError
from .schema import Column, Schema
from .tree import Tree

# Rows that break a constraint are drawn again, until so many drawn ones gave no more than so few. A batch has at most
# AT_ONCE.
_MOST_DRAWN, _LEAST_FOUND, _AT_ONCE = 1 << 22, 100, 1 << 17


class Limits:
    """The conditions on a column: which of a number's values meet them (lo <= value < hi), or which cells do."""

    def __init__(self, column: Column):
        self._column = column
        self._met: List[Tuple[Condition, float]] = []
        self.lo, self.hi = -math.inf, math.inf

    def add(self, condition: Condition, want: float) -> None:
        self._met.append((condition, want))
        if math.isnan(want):  # only an empty cell meets it
            self.hi = -math.inf
            return
        relation = condition.relation
        if relation in ("<", "<=", "="):
            self.hi = min(self.hi, want if relation == "<" else _after(self._column, want))
        if relation in (">", ">=", "="):
            self.lo = max(self.lo, _after(self._column, want) if relation == ">" else want)

    def met(self, cells: np.ndarray) -> np.ndarray:
        out = np.ones(len(cells), bool)
        for condition, want in self._met:
            out &= condition.met(cells, want)
        return out


def _after(column: Column, value: Any) -> Any:
    """The next value of a number."""
    return value + 1 if column.kind == "integer" else np.nextafter(value, math.inf)


class DrawnColumn:
    """A column of the tree: the fine cells of its coarse ones, and how values are drawn in them."""

    def __init__(self, column: Column, cell_of: Sequence[int], lower_ends: Sequence[float], shares: np.ndarray):
        self.column = column
        self._cell_of = np.asarray(cell_of)
        self._shares = shares.astype(float)
        self.size = int(self._cell_of.max()) + 1
        self._lo = np.asarray(lower_ends, float)
        self._hi = np.empty(0)
        # The cell that is drawn of what is no part of a range.
        self._plain = np.arange(len(cell_of), dtype=float)
        if column.nullable:
            self._plain[-1] = np.nan
        if column.is_number:
            most = max(column.range()[1], self._lo[-1])
            self._hi = np.append(self._lo[1:], _after(column, most))

    def met(self, limits: Optional[Limits]) -> np.ndarray:
        """The share of each fine cell's values that meets the limits."""
        if limits is None:
            return np.ones(len(self._shares))
        out = limits.met(self._plain).astype(float)
        if self.column.is_number:
            n = len(self._lo)
            lo, hi = np.maximum(self._lo, limits.lo), np.minimum(self._hi, limits.hi)
            whole = np.ceil if self.column.kind == "integer" else np.asarray
            out[:n] = np.maximum(whole(hi) - whole(lo), 0) / (whole(self._hi) - whole(self._lo))
        return out

    def factor(self, limits: Limits) -> np.ndarray:
        """What the limits leave of the probability of each coarse cell."""
        return np.bincount(self._cell_of, self._shares * self.met(limits), self.size)

    def values(self, cells: np.ndarray, limits: Optional[Limits], rng: np.random.Generator) -> np.ndarray:
        """The values of rows by their coarse cells."""
        fine = self._fine(cells, self._shares * self.met(limits), rng)
        if not self.column.is_number:
            return self._plain[fine]
        part = fine < len(self._lo)
        out = np.full(len(fine), np.nan)
        lo, hi = self._lo[fine[part]], self._hi[fine[part]]
        if limits is not None:
            lo, hi = np.maximum(lo, limits.lo), np.minimum(hi, limits.hi)
        if self.column.kind == "integer":
            lo, hi = np.ceil(lo), np.ceil(hi)
            out[part] = lo + rng.integers(0, np.maximum(1, hi - lo).astype(np.int64))
            return out
        value = lo + rng.random(len(lo)) * (hi - lo)
        value = np.where(value >= hi, lo, value)  # rounded up, as in the cell of one value half of the time
        rounded = self._rounded(value)
        out[part] = np.where((rounded >= lo) & (rounded < hi), rounded, value)
        return out

    def _fine(self, cells: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A fine cell of each coarse one, by weights."""
        sums = np.bincount(self._cell_of, weights, self.size)
        first = np.zeros(self.size, int)  # for shares that underflowed
        first[self._cell_of[::-1]] = np.arange(len(self._cell_of))[::-1]
        possible = np.flatnonzero(weights > 0)
        if not len(possible):
            return first[cells]
        possible = possible[np.argsort(self._cell_of[possible], kind="stable")]
        of = self._cell_of[possible]
        upper = np.cumsum(weights[possible] / sums[of])
        begin = np.searchsorted(of, np.arange(self.size + 1))  # of the fine cells of each coarse one
        base = np.concatenate([[0], upper])[begin]
        at = np.searchsorted(upper, base[cells] + rng.random(len(cells)), "right")
        at = np.clip(at, begin[cells], np.maximum(begin[cells + 1] - 1, begin[cells]))
        return np.where(sums[cells] > 0, possible[np.minimum(at, len(possible) - 1)], first[cells])

    def _rounded(self, values: np.ndarray) -> np.ndarray:
        """Six digits of the column's range, or on a log scale of the value, and whole numbers at least."""
        lo, hi = self.column.range()
        worth = 1 + values if self.column.scale == "log" else np.full_like(values, hi - lo)
        power = np.minimum(np.floor(np.log10(worth)) - 5, 0)
        unit = 10.0 ** np.minimum(-power, 300)
        return np.where(power < -300, values, np.trunc(values * unit + np.copysign(0.5, values)) / unit)


class Marginals:
    """Draws rows of a model of kind `tree`."""

    def __init__(self, schema: Schema, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray]):
        self._schema = schema
        self._places = [schema.index(c["name"]) for c in fields["columns"]]
        self._columns = [
            DrawnColumn(schema.columns[at], c["cells"], c.get("from", []), tensors[f"shares{i}"])
            for i, (at, c) in enumerate(zip(self._places, fields["columns"]))
        ]
        tables = [tensors[f"clique{i}"].astype(float) for i in range(len(fields["cliques"]))]
        sizes = [c.size for c in self._columns] + ([fields["hidden"]] if "hidden" in fields else [])
        self._tree = Tree(sizes, fields["cliques"], tables)

    def draw(self, rows: int, where: Sequence[Condition], rng: np.random.Generator) -> np.ndarray:
        """Draw cells, shape [rows, columns of the schema].

        Rows meet all conditions, and break no constraint: those that do are drawn again.
        """
        limits = self._limits(where)
        tree = self._tree.given({i: self._columns[i].factor(of) for i, of in limits.items()}) if limits else self._tree
        if tree is None:
            raise ConclaveError(f"the model has no rows with {', '.join(map(str, where))}; ask for others")
        found: List[np.ndarray] = []
        have = tried = since = 0
        while have < rows:
            if tried > _MOST_DRAWN:
                raise ConclaveError(f"of {tried} rows of the model {since} meet the schema's constraints with "
                                    f"{', '.join(map(str, where)) or 'no condition'}; ask for others")
            batch = min(max(rows - have, tried), _AT_ONCE)
            cells = self._batch(tree, batch, limits, rng)
            cells = cells[self._schema.broken(cells) == 0][: rows - have]
            found.append(cells)
            have, tried, since = have + len(cells), tried + batch, since + len(cells)
            if since > _LEAST_FOUND:
                tried = since = 0
        return np.concatenate(found)

    def _batch(self, tree: Tree, rows: int, limits: Dict[int, Limits], rng: np.random.Generator) -> np.ndarray:
        cells = np.full((rows, len(self._schema.columns)), np.nan)
        for i, coarse in enumerate(tree.draw(rows, rng)[: len(self._columns)]):
            cells[:, self._places[i]] = self._columns[i].values(coarse, limits.get(i), rng)
        return cells

    def _limits(self, where: Sequence[Condition]) -> Dict[int, Limits]:
        out: Dict[int, Limits] = {}
        for condition in where:
            want = condition.cell(self._schema)
            i = self._places.index(self._schema.index(condition.column))
            out.setdefault(i, Limits(self._columns[i].column)).add(condition, want)
        return out
