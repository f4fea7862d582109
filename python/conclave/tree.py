"""A junction tree over columns of discrete cells, and rows of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import List, Mapping, Optional, Sequence

import numpy as np


@dataclass
class _Clique:
    columns: List[int]  # rising
    parent: int  # -1 of a root
    separator: List[int]  # the columns that it shares with its parent
    log: np.ndarray  # of each cell's probability, given the separator's; the last column's cells run fastest
    own: np.ndarray  # of each cell, the cell of the separator that it is in
    above: np.ndarray  # the same of the parent's cells
    cells: int  # of the separator


def _index(sizes: Sequence[int], columns: Sequence[int], part: Sequence[int]) -> np.ndarray:
    """Of each cell of a table of columns, the cell of a table of some of them that it is in."""
    at = np.arange(_product(sizes, columns))
    out, stride = np.zeros_like(at), 1
    scale = 1
    for column in reversed(columns):
        if column in part:
            out += at // stride % sizes[column] * scale
            scale *= sizes[column]
        stride *= sizes[column]
    return out


def _product(sizes: Sequence[int], columns: Sequence[int]) -> int:
    out = 1
    for column in columns:
        out *= sizes[column]
    return out


class Tree:
    """A distribution over columns of discrete cells.

    Parameters
    ----------
    sizes : list of int
        The cells of each column.
    cliques : list of dict
        `columns` and `parent` of each, parents first.
    tables : list of array
        The probabilities of each clique's cells. They count given what it shares with its parent.
    """

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Mapping], tables: Sequence[np.ndarray]):
        self._sizes = list(sizes)
        self._cliques: List[_Clique] = []
        for clique, table in zip(cliques, tables):
            columns, parent = clique["columns"], clique["parent"]
            above = cliques[parent]["columns"] if parent >= 0 else []
            separator = [c for c in columns if c in above]
            own, cells = _index(sizes, columns, separator), _product(sizes, separator)
            sums = np.bincount(own, table, cells)[own]
            with np.errstate(divide="ignore", invalid="ignore"):
                log = np.where(table > 0, np.log(table / sums), -np.inf)
            up = _index(sizes, above, separator) if parent >= 0 else np.zeros(0, int)
            self._cliques.append(_Clique(columns, parent, separator, log, own, up, cells))
        self._weights = self._propagated([c.log.copy() for c in self._cliques])
        if self._weights is None:
            raise ValueError("no row is possible")

    def given(self, factors: Mapping[int, np.ndarray]) -> Optional["Tree"]:
        """The tree with the probability of each cell of some columns multiplied; None where nothing is left."""
        logs = [c.log.copy() for c in self._cliques]
        for column, factor in factors.items():
            at = min((i for i, c in enumerate(self._cliques) if column in c.columns), key=lambda i: len(logs[i]))
            with np.errstate(divide="ignore"):
                logs[at] += np.log(factor)[_index(self._sizes, self._cliques[at].columns, [column])]
        given = copy.copy(self)
        given._weights = self._propagated(logs)
        return None if given._weights is None else given

    def _propagated(self, logs: List[np.ndarray]) -> Optional[List[np.ndarray]]:
        """Weights of each clique's cells, given the separator's, when messages went from the leaves to the roots."""
        weights: List[np.ndarray] = [np.zeros(0)] * len(logs)
        for i in reversed(range(len(logs))):
            clique, log = self._cliques[i], logs[i]
            # Each cell of the separator has a scale of its own: next to the largest of all some would underflow.
            top = np.full(clique.cells, -np.inf)
            np.maximum.at(top, clique.own, log)
            if not np.isfinite(top).any():
                return None
            possible = np.isfinite(log)
            weights[i] = np.zeros(len(log))
            weights[i][possible] = np.exp(log[possible] - top[clique.own[possible]])
            if clique.parent >= 0:
                with np.errstate(divide="ignore"):
                    message = top + np.log(np.bincount(clique.own, weights[i], clique.cells))
                logs[clique.parent] += message[clique.above]
        return weights

    def draw(self, rows: int, rng: np.random.Generator) -> List[np.ndarray]:
        """Draw rows: the cells of each column.

        In each group of rows that agree in what was drawn before, cells get the whole part of what they are expected
        to have, and chance decides about the fractions alone.
        """
        cells: List[np.ndarray] = [np.zeros(0, int)] * len(self._sizes)
        assert self._weights is not None
        for clique, weights in zip(self._cliques, self._weights):
            group = np.zeros(rows, int)
            for column in clique.separator:
                group = group * self._sizes[column] + cells[column]
            chosen, stride = _shared(group, weights, clique, rng), 1
            for column in reversed(clique.columns):
                if column not in clique.separator:
                    cells[column] = chosen // stride % self._sizes[column]
                stride *= self._sizes[column]
        return cells


def _shared(group: np.ndarray, weights: np.ndarray, clique: _Clique, rng: np.random.Generator) -> np.ndarray:
    """A cell of the clique for each row, by the weights of the cells of its group."""
    size = np.bincount(group, minlength=clique.cells)
    total = np.bincount(clique.own, weights, clique.cells)
    # What led to a group without a possible cell underflowed: anything is as good.
    weights = np.where(total[clique.own] > 0, weights, 1)
    choices = np.flatnonzero((weights > 0) & (size[clique.own] > 0))
    # In any order: those with fractions in neighbouring places are never rounded up together.
    choices = choices[_by_group(clique.own[choices], rng)]
    of, by = clique.own[choices], weights[choices]
    first = np.ones(len(of), bool)
    first[1:] = of[1:] != of[:-1]
    number = np.cumsum(first) - 1
    expected = by / np.bincount(of, by, clique.cells)[of] * size[of]
    sums = np.cumsum(expected)
    before = (sums - expected)[first][number]
    up_to = np.minimum(np.floor(sums - before + rng.random(number[-1] + 1)[number]).astype(int), size[of])
    last = np.append(first[1:], True)
    up_to[last] = size[of][last]
    counts = np.diff(up_to, prepend=0)
    counts[first] = up_to[first]
    out = np.empty(len(group), int)
    out[_by_group(group, rng)] = np.repeat(choices, counts)
    return out


def _by_group(group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The places of all, group by group, and in any order within one."""
    any_order = rng.permutation(len(group))
    small = group.max(initial=0) < 1 << 16  # which numpy sorts in linear time
    return any_order[np.argsort(group[any_order].astype(np.uint16 if small else np.int64), kind="stable")]
