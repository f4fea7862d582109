"""Dates and times: how cells, moments and texts belong together. No time zone of the machine plays a part."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Union

import numpy as np

from .errors import ConclaveError

_FIELDS = {
    "YYYY": r"(?P<year>\d{4})", "MM": r"(?P<month>\d{2})", "DD": r"(?P<day>\d{2})", "M": r"(?P<month>\d{1,2})",
    "D": r"(?P<day>\d{1,2})", "hh": r"(?P<hour>\d{2})", "mm": r"(?P<minute>\d{2})", "ss": r"(?P<second>\d{2})",
}
_LETTERS = re.compile("|".join(_FIELDS))
_ISO = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"([T ](?P<hour>\d{2}):(?P<minute>\d{2})(:(?P<second>\d{2})(\.\d*)?)?(Z|\+00(:?00)?)?)?")
# The steps of numpy for a resolution, and how many of them a cell is; the finest first.
_STEPS = {
    "second": ("s", 1), "minute": ("m", 1), "hour": ("h", 1), "day": ("D", 1), "week": ("D", 7), "month": ("M", 1),
    "quarter": ("M", 3), "year": ("Y", 1),
}


@dataclass(frozen=True)
class Calendar:
    """How cells of a column are moments: whole units of a resolution since its start."""

    start: str
    resolution: str
    format: str

    def coarser(self, other: "Calendar") -> bool:
        """Whether its cells are longer than those of another."""
        return list(_STEPS).index(self.resolution) > list(_STEPS).index(other.resolution)

    def _zero(self, step: str) -> np.datetime64:
        return np.datetime64(self.start, "s").astype(f"datetime64[{step}]")

    def moments(self, cells: np.ndarray) -> np.ndarray:
        """The begins of the units that cells stand for, as datetime64[s]; NaT of empty cells."""
        step, several = _STEPS[self.resolution]
        empty = np.isnan(cells)
        units = np.where(empty, 0, cells).astype(np.int64) * several
        out = (self._zero(step) + units.astype(f"timedelta64[{step}]")).astype("datetime64[s]")
        out[empty] = np.datetime64("NaT")
        return out

    def cells(self, moments: np.ndarray) -> np.ndarray:
        """The cells that moments lie in; NaN of NaT."""
        step, several = _STEPS[self.resolution]
        empty = np.isnat(moments)
        units = np.where(empty, 0, (moments.astype(f"datetime64[{step}]") - self._zero(step)).astype(int))
        return np.where(empty, np.nan, units // several)

    def parse(self, text: str, column: str) -> np.datetime64:
        """The moment of a text in the column's format, or in that of ISO 8601."""
        pattern, at = "", 0
        for match in _LETTERS.finditer(self.format):
            pattern += re.escape(self.format[at : match.start()]) + _FIELDS[match.group()]
            at = match.end()
        match = re.fullmatch(pattern + re.escape(self.format[at:]), text) or _ISO.fullmatch(text)
        if match is None:
            raise ConclaveError(f'{text!r} is no moment of column "{column}"; write it as {self.format}')
        p = {"month": "01", "day": "01", "hour": "00", "minute": "00", "second": "00"}
        p.update({k: v.zfill(2) for k, v in match.groupdict().items() if v is not None})
        try:
            return np.datetime64(f"{p['year']}-{p['month']}-{p['day']}T{p['hour']}:{p['minute']}:{p['second']}", "s")
        except ValueError:
            raise ConclaveError(f'{text!r} of column "{column}" is a day that there is not; correct it') from None

    def cell(self, text: str, column: str) -> float:
        """The cell of a text, which has to be the begin of a unit."""
        moment = np.array([self.parse(text, column)])
        cell = self.cells(moment)
        if self.moments(cell)[0] != moment[0]:
            raise ConclaveError(f'column "{column}" counts by the {self.resolution}, and {text!r} does not begin one')
        return float(cell[0])

    def text(self, moments: np.ndarray) -> np.ndarray:
        """Moments as the column writes them, "" for NaT."""
        distinct, place = np.unique(moments, return_inverse=True)
        return np.array([self._text(m) for m in distinct], dtype=object)[place]

    def _text(self, moment: np.datetime64) -> str:
        if np.isnat(moment):
            return ""
        year, month, day, hour, minute, second = re.split("[-T:]", str(moment.astype("datetime64[s]")))
        values = {"YYYY": year, "MM": month, "DD": day, "M": month.lstrip("0"), "D": day.lstrip("0"), "hh": hour,
                  "mm": minute, "ss": second}
        return _LETTERS.sub(lambda m: values[m.group()], self.format)


def parsed(calendar: Calendar, texts: Iterable[Union[str, float]], column: str) -> np.ndarray:
    """The moments of the texts of a column, NaT where one is empty."""
    known = {"": np.datetime64("NaT", "s")}
    out = []
    for text in texts:
        if text not in known:
            known[text] = calendar.parse(text, column)
        out.append(known[text])
    return np.array(out, dtype="datetime64[s]")
