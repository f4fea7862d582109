"""Models of a generator network of dense layers: records of a class from noise, decoded to cells."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

import numpy as np

from .conditions import Condition
from .encoding import Encoder
from .errors import ConclaveError
from .schema import Schema

_LEAK = np.float32(0.2)  # the slope of the rectifiers below zero
# A row that breaks a constraint is drawn so often before it is moved by every one that says where to, and at all.
_PATIENT, _MOST_DRAWN = 100, 10_000
_BATCH = 1 << 14  # records whose layers are in memory at a time


class Network:
    """Draws rows of a model of kind `network` whose generator is dense and has no warp."""

    def __init__(self, schema: Schema, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray]):
        spec = fields["generator"]
        self._schema, self._encoder = schema, Encoder(schema)
        self._shares = np.asarray(fields["class_shares"], float)
        self._noise, self._classes = spec["noise"], spec["classes"]
        self._layers = [(tensors[f"layer{i}.weight"].T, tensors[f"layer{i}.bias"]) for i in range(spec["layers"] + 1)]
        if self._layers[-1][1].shape != (self._encoder.width,):
            raise ConclaveError("the generator does not have the features of its schema; copy the model folder again")

    def draw(self, rows: int, where: Sequence[Condition], rng: np.random.Generator) -> np.ndarray:
        """Draw cells, shape [rows, columns of the schema].

        A condition may name a class of the label. Rows break no constraint: those that do are moved where it says
        where to, and drawn again else.
        """
        asked = self._class(where)
        if asked is None:
            classes = rng.choice(len(self._shares), rows, p=self._shares / self._shares.sum())
        else:
            classes = np.full(rows, asked)
        out = np.empty((rows, len(self._schema.columns)))
        left = np.arange(rows)
        for drawn in range(1, _MOST_DRAWN + 1):
            cells, broken = self._settled(self._records(classes[left], rng), classes[left], drawn > _PATIENT)
            out[left[broken == 0]] = cells[broken == 0]
            left = left[broken != 0]
            if not len(left):
                return out
        raise ConclaveError(f"{len(left)} rows were drawn {_MOST_DRAWN} times each, and broke constraint {broken[-1]} "
                            "of the schema or another one every time; train the model with a larger epsilon, or ask "
                            "for another class")

    def _class(self, where: Sequence[Condition]) -> Optional[int]:
        asked = None
        for c in where:
            classes = self._schema.classes
            if c.column != self._schema.label or c.relation != "=" or not classes:
                raise ConclaveError(f'{c}: of a network only the label "{self._schema.label}" can be asked for')
            if c.value not in classes:
                raise ConclaveError(f"{c}: the label has the values {', '.join(classes)}")
            if asked is not None and asked != classes.index(c.value):
                raise ConclaveError("a row has one label; ask for one")
            asked = classes.index(c.value)
        return asked

    def _records(self, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Encoded records of classes, shape [len(classes), width]."""
        out: List[np.ndarray] = []
        for begin in range(0, len(classes), _BATCH):
            of = classes[begin : begin + _BATCH]
            noise = rng.standard_normal((len(of), self._noise), dtype=np.float32)
            x = np.concatenate([noise, np.eye(self._classes, dtype=np.float32)[of]], axis=1)
            for i, (weight, bias) in enumerate(self._layers):
                x = x @ weight + bias
                if i < len(self._layers) - 1:
                    x = np.where(x < 0, _LEAK * x, x)
            out.append(self._encoder.choose(x, rng))
        return np.concatenate(out)

    def _settled(self, records: np.ndarray, classes: np.ndarray, always: bool):
        """The cells of records, moved by the constraints that they break, and which one each breaks all the same."""
        schema = self._schema
        cells = self._encoder.decode(records, classes)
        broken = schema.broken(cells)
        rows = np.flatnonzero(broken)
        if len(rows):
            moved = cells[rows]
            schema.move(moved, always)
            if schema.label_index >= 0:  # the class was asked for and stays
                moved[:, schema.label_index] = cells[rows, schema.label_index]
            good = schema.broken(moved) == 0
            # A number may lose decimals as it is encoded, and be above the one that it was moved to.
            moved[good] = self._encoder.settled(moved[good])
            cells[rows], broken[rows] = moved, schema.broken(moved)
        return cells, broken
