"""What a network makes, and the cells that it stands for."""

from __future__ import annotations

import math
from typing import List, Tuple

import numpy as np

from .errors import ConclaveError
from .schema import Column, Schema


class Scaler:
    """Maps the public range of a number to [0,1] and back."""

    def __init__(self, column: Column):
        self._lo, self._hi = column.range()
        self._log, self._whole = column.scale == "log", column.kind == "integer"
        ends = [math.log1p(v) if self._log else v for v in (self._lo, self._hi)]
        self._start, self._span = ends[0], ends[1] - ends[0]
        points = np.asarray(column.points, float)
        features = self.encode(points).astype(np.float32)
        order = np.argsort(features, kind="stable")
        self._features, self._points = features[order], points[order]

    def encode(self, values: np.ndarray) -> np.ndarray:
        """The places of values in the range, from 0 to 1."""
        return ((np.log1p(values) if self._log else values) - self._start) / self._span

    def decode(self, features: np.ndarray) -> np.ndarray:
        """Values of places, without decimals that a float32 cannot carry; places beyond 0 and 1 are at the edges."""
        value = self._start + np.clip(features.astype(float), 0, 1) * self._span
        slope = np.full(len(value), self._span)
        if self._log:
            value = np.expm1(value)
            slope *= 1 + value
        value = _rounded(value) if self._whole else _short(value, slope * 2.0**-24)
        value = np.clip(value, self._lo, self._hi) + 0  # rounding may leave the range by a hair
        if len(self._points):  # numbers that the schema names come back as they are
            at = np.minimum(np.searchsorted(self._features, features), len(self._points) - 1)
            value = np.where(self._features[at] == features, self._points[at], value)
        return value


def _rounded(values: np.ndarray) -> np.ndarray:
    """Halves are rounded away from zero."""
    whole = np.trunc(values)
    return whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0)


def _short(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Values rounded to the finest power of ten that is not below a step."""
    power = np.ceil(np.log10(step))
    unit = 10.0 ** np.abs(power)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * unit
        fine = np.where(np.abs(scaled) < 2.0**53, _rounded(scaled) / unit, values)
        coarse = _rounded(values / unit) * unit
    return np.where(np.abs(power) > 300, values, np.where(power <= 0, fine, coarse))


class Encoder:
    """The features of a schema: every column in order but the unit and a label that has classes."""

    def __init__(self, schema: Schema):
        self._schema, self.width = schema, 0
        self._heads: List[Tuple[int, str, int, int]] = []  # column, kind, offset, width
        self._scalers = {}
        for i in schema.learned():
            column = schema.columns[i]
            if i == schema.label_index:
                continue
            if column.kind == "categorical":
                self._add(i, "category", len(column.categories) + column.nullable)
                continue
            if column.is_number:
                self._scalers[i] = Scaler(column)
            self._add(i, "number" if column.is_number else "binary", 1)
            if column.nullable:
                self._add(i, "empty", 1)

    def _add(self, column: int, kind: str, width: int) -> None:
        self._heads.append((column, kind, self.width, width))
        self.width += width

    def choose(self, raw: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Records of a network's outputs: sigmoids of numbers, draws of choices."""
        if not np.isfinite(raw).all():
            raise ConclaveError("the model makes numbers that are not finite: its training diverged; train it again")
        out = np.zeros_like(raw)
        for _, kind, offset, width in self._heads:
            x = raw[:, offset : offset + width]
            if kind == "category":
                weights = np.cumsum(np.exp((x - x.max(axis=1, keepdims=True)).astype(float)), axis=1)
                chosen = (rng.random((len(x), 1)) * weights[:, -1:] >= weights).sum(axis=1)
                out[np.arange(len(x)), offset + np.minimum(chosen, width - 1)] = 1
                continue
            with np.errstate(over="ignore"):
                x = 1 / (1 + np.exp(-x[:, 0]))
            out[:, offset] = x if kind == "number" else rng.random(len(x)) < x
        return out

    def decode(self, records: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """The cells of records, shape [len(records), columns of the schema]."""
        cells = np.full((len(records), len(self._schema.columns)), np.nan)
        if self._schema.label_index >= 0:
            cells[:, self._schema.label_index] = classes
        for column, kind, offset, width in self._heads:
            x = records[:, offset : offset + width]
            if kind == "number":
                cells[:, column] = self._scalers[column].decode(x[:, 0])
            elif kind == "binary":
                cells[:, column] = x[:, 0] >= 0.5
            elif kind == "empty":
                cells[x[:, 0] >= 0.5, column] = np.nan
            else:
                best = x.argmax(axis=1)
                cells[:, column] = np.where(best < len(self._schema.columns[column].categories), best, np.nan)
        return cells

    def settled(self, cells: np.ndarray) -> np.ndarray:
        """Cells as they come back when they are encoded and decoded."""
        out = cells.copy()
        for column, scaler in self._scalers.items():
            there = ~np.isnan(out[:, column])
            features = scaler.encode(out[there, column]).astype(np.float32)
            out[there, column] = scaler.decode(features)
        return out
