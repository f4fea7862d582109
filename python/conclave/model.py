"""A trained model: it draws as many rows as wanted, at no further cost."""

from __future__ import annotations

import hashlib
import json
import operator
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

import numpy as np
import pandas as pd

from . import program, safetensors
from .conditions import Condition, Where, conditions
from .errors import ConclaveError
from .frames import frame_of_cells, frame_of_texts
from .marginals import Marginals
from .network import Network
from .schema import Schema
from .signals import ends_in_order

_MOST_ROWS = 10_000_000  # drawn at once, which are held in memory


class Model:
    """A model folder of a finished run.

    Attributes
    ----------
    folder : Path
        The model folder.
    schema : Schema
        What the columns of the rows may hold.
    certificate : dict or None
        The file certificate.json that states the guarantee; None where the model came without it.
    """

    def __init__(self, folder: Path, fields: Mapping[str, Any], schema: Schema, drawer, binary):
        self.folder, self.schema = folder, schema
        self._fields, self._drawer, self._binary = fields, drawer, binary
        self.certificate = _certificate(folder.parent / "certificate.json")

    @classmethod
    def load(cls, folder: program.PathLike, *, binary: Optional[program.PathLike] = None) -> "Model":
        """Read a model.

        Parameters
        ----------
        folder : path
            A model folder, the output folder of a run, or what `fit` was given as `out`.
        binary : path, optional
            The program `conclave`, for models that are drawn by it alone.
        """
        given = Path(folder)
        for at in (given, given / "model", given / "result" / "model"):
            if (at / "model.json").is_file():
                break
        else:
            raise ConclaveError(f"{given} has no model.json; give the model folder of a finished run")
        name = str(at / "model.json")
        try:
            fields = json.loads((at / "model.json").read_text("utf-8"))
            if fields["format"] != 1:
                raise ConclaveError(f"{name}: format {fields['format']} is unknown to this version; update the program")
            if "schema" not in fields:
                raise ConclaveError(f"{name} is of an earlier version and does not say what its schema means; "
                                    "train the model again, or draw with `conclave sample`")
            schema = Schema.from_json(fields["schema"])
            _digest(at / "schema.yaml", fields["schema_sha256"])
            weights = _digest(at / "generator.safetensors", fields["weights_sha256"])
            kind = _drawn_here(fields)
            drawer = kind and kind(schema, fields, safetensors.tensors(weights, str(at / "generator.safetensors")))
        except (KeyError, TypeError, ValueError, IndexError, OSError) as error:
            raise ConclaveError(f"{name}: it is damaged ({error!r}); copy the model folder again") from error
        return cls(at, fields, schema, drawer, binary)

    @property
    def epsilon(self) -> Optional[float]:
        """The guarantee; None where the model came without its certificate."""
        return self.certificate and self.certificate["epsilon"]

    def sample(self, n: int, where: Where = None, seed: Optional[int] = None) -> pd.DataFrame:
        """Draw rows.

        Parameters
        ----------
        n : int
            How many, at most 10,000,000 at once.
        where : str, list of str or dict, optional
            Draw such rows only: "age>60", ["sex=F", "age>60"] or {"sex": "F"}. Networks take the label alone.
        seed : int, optional
            Repeats a draw of the same version. The program draws other rows with the same seed.

        Returns
        -------
        DataFrame
            Int64, float64, category and datetime64 by the kinds of the schema; what is empty is missing.

        Raises
        ------
        ConclaveError
            Where the model has no such rows, or is drawn by the program alone and that is not there.
        """
        n = _whole(n, "n", 1, _MOST_ROWS)
        if seed is not None:
            seed = _whole(seed, "seed", 0, (1 << 63) - 1)
        asked = conditions(where)
        for condition in asked:
            condition.refuse_spaces(self.schema)
        for file in {c.codes: None for c in self.schema.columns if c.codes}:
            if not (self.folder / file).is_file():
                names = ", ".join(c.name for c in self.schema.columns if c.codes == file)
                warnings.warn(f"{self.folder / file}: the list of codes of {names} is not there: the rows hold "
                              "prefixes in place of codes; put it there to have codes", stacklevel=2)
        if self._drawer is None:
            return self._by_program(n, asked, seed)
        cells = self._drawer.draw(n, asked, np.random.default_rng(seed))
        return frame_of_cells(self.schema, cells, self.folder)

    def _by_program(self, n: int, asked: List[Condition], seed: Optional[int]) -> pd.DataFrame:
        try:
            path = program.find(self._binary)
        except ConclaveError as error:
            kind = self._fields.get("generator", {}).get("kind") or self._fields.get("kind")
            raise ConclaveError(f"a model of kind {kind} is drawn by the program alone: {error}") from None
        with ends_in_order(), tempfile.TemporaryDirectory(prefix="conclave-") as scratch:
            out = str(Path(scratch) / "rows.csv")
            arguments = ["sample", "--model", str(self.folder), "--rows", str(n), "--out", out]
            for condition in asked:
                arguments += ["--where", str(condition)]
            if seed is not None:
                arguments += ["--seed", str(seed + 1)]  # 0 draws anew there
            program.call(path, arguments)
            try:
                return frame_of_texts(self.schema, pd.read_csv(out, dtype=str, keep_default_na=False, encoding="utf-8"))
            except (OSError, ValueError, KeyError):
                raise ConclaveError(f"{path} wrote no rows of the model; name the program `conclave`") from None


def _whole(value: Any, name: str, least: int, most: int) -> int:
    """A whole number between bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ConclaveError(f"{name} is {value!r}, which is no whole number; write one") from None
    if not least <= number <= most:
        raise ConclaveError(f"{name} is {number}; ask for {least:,} to {most:,}"
                            + (", and again for more" if name == "n" else ""))
    return number


def _certificate(path: Path) -> Optional[Dict[str, Any]]:
    if not path.is_file():
        return None
    try:
        certificate = json.loads(path.read_text("utf-8"))
        float(certificate["epsilon"])
    except (OSError, ValueError, TypeError, KeyError):
        raise ConclaveError(f"{path}: it is damaged; copy the run's output folder again") from None
    return certificate


def _drawn_here(fields: Mapping[str, Any]):
    """What draws rows of such a model; None where the program has to."""
    kind = fields.get("kind", "network")
    if kind == "tree":
        return Marginals
    generator = fields.get("generator", {})
    if kind == "network" and generator.get("kind", "dense") == "dense" and not generator.get("warp"):
        return Network
    return None


def _digest(path: Path, want: str) -> bytes:
    """The bytes of a file of the model, which has to be the one that model.json names."""
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != want:
        raise ConclaveError(f"{path}: the file was changed after the training: its SHA-256 is not the one in "
                            "model.json; copy the model folder again, do not edit it")
    return raw
