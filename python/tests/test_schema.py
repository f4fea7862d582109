"""Columns: cells, texts and made-up identifiers; constraints and their moves."""

import datetime
import math

import numpy as np
import pandas as pd
import pytest

import conclave
from conclave.conditions import cell_text
from conclave.encoding import Scaler
from conclave.frames import frame_of_cells, frame_of_texts
from conclave.schema import Column, Schema

DAY = {"name": "visit", "kind": "integer", "declared": "date", "lower": 0, "upper": 3652,
       "start": "2015-01-01T00:00:00", "resolution": "day", "format": "DD.MM.YYYY", "nullable": True}
MONTH = {"name": "month", "kind": "integer", "declared": "date", "lower": 0, "upper": 119, "start": "2015-01-01",
         "resolution": "month", "format": "YYYY-MM"}
SEEN = {"name": "seen", "kind": "integer", "declared": "datetime", "lower": 0, "upper": 1 << 20,
        "start": "2015-01-01T00:00", "resolution": "hour", "format": "YYYY-MM-DD hh:mm"}
CODE = {"name": "icd", "kind": "categorical", "declared": "code", "categories": ["I20", "I2", "J"], "codes": "icd.csv"}
ID = {"name": "id", "kind": "text", "declared": "identifier", "pattern": "P-###/x"}


def schema(*columns, constraints=(), label=""):
    return Schema.from_json({"columns": columns, "constraints": constraints, "label": label})


def test_dates():
    column = schema(DAY).columns[0]
    assert column.cell("29.02.2016") == 424 and column.cell("2016-02-29 00:00:00") == 424
    assert math.isnan(column.cell(""))
    for text, message in [("30.02.2016", "is a day that there is not"), ("2016", "write it as DD.MM.YYYY"),
                          ("01.01.2014", "outside the bounds"), ("2016-02-29T13:00", "counts by the day")]:
        with pytest.raises(conclave.ConclaveError, match=message):
            column.cell(text)
    assert schema(MONTH).columns[0].cell("2016-03") == 14
    assert schema({**DAY, "format": "D.M.YYYY"}).columns[0].cell("1.3.2015") == 59
    frame = frame_of_cells(schema(DAY, MONTH, SEEN), np.array([[424, 14, 25], [np.nan, 0, 0]]), None)
    assert [str(t) for t in frame.dtypes] == ["datetime64[ns]"] * 3
    assert list(frame.iloc[0]) == [pd.Timestamp(2016, 2, 29), pd.Timestamp(2016, 3, 1), pd.Timestamp(2015, 1, 2, 1)]
    assert pd.isna(frame.visit[1])
    texts = pd.DataFrame({"visit": ["29.02.2016", ""], "month": ["2016-03", "2015-01"],
                          "seen": ["2015-01-02 01:00", "2015-01-01 00:00"]})
    pd.testing.assert_frame_equal(frame_of_texts(schema(DAY, MONTH, SEEN), texts), frame)


@pytest.mark.parametrize("resolution, start, cell, begin", [
    ("week", "2015-01-01", 2, "2015-01-15T00:00:00"), ("quarter", "2015-04-01", 3, "2016-01-01T00:00:00"),
    ("year", "1900-01-01", 100, "2000-01-01T00:00:00"), ("second", "2015-01-01", 61, "2015-01-01T00:01:01"),
    ("minute", "1960-02-28T23:59", 1441, "1960-03-01T00:00:00"),
])
def test_resolutions(resolution, start, cell, begin):
    calendar = schema({**DAY, "resolution": resolution, "start": start}).columns[0].calendar
    moment = np.array([begin], "datetime64[s]")
    assert calendar.moments(np.array([float(cell)]))[0] == moment[0]
    assert list(calendar.cells(np.append(moment, moment - 1))) == [cell, cell - 1]


def test_dates_beyond_nanoseconds_are_texts():
    far = schema({**DAY, "upper": 3_000_000})
    frame = frame_of_cells(far, np.array([[2_916_000.0], [np.nan]]), None)
    assert str(frame.visit.dtype) == "string" and frame.visit[0] == "27.09.9998" and frame.visit[1] is pd.NA


def test_identifiers_are_made_up():
    frame = frame_of_cells(schema(ID, {"name": "u", "kind": "text", "role": "unit"},
                                  {"name": "n", "kind": "integer", "role": "unit", "lower": 5, "upper": 6}),
                           np.full((1001, 3), np.nan), None)
    assert list(frame.id[[0, 998, 1000]]) == ["P-001/x", "P-999/x", "P-1001/x"] and frame.id.is_unique
    assert list(frame.u[:2]) == ["1", "2"] and list(frame.n[:3]) == [5, 6, 5] and str(frame.n.dtype) == "Int64"
    with pytest.raises(conclave.ConclaveError, match="no such column"):
        conclave.conditions.conditions("id=P-001/x")[0].cell(schema(ID))


def test_codes(tmp_path):
    table = schema(CODE)
    assert table.columns[0].cell("I20") == 0
    with pytest.raises(conclave.ConclaveError, match="it has I20, I2, J"):
        table.columns[0].cell("I21")
    cells = np.array([[0.0], [1.0], [2.0], [0.0]])
    assert list(frame_of_cells(table, cells, tmp_path).icd) == ["I20", "I2", "J", "I20"]
    (tmp_path / "icd.csv").write_text("Code;text\nI20.0;a\nI20.1;b\nI21;c\nJ00;d\nJ01;e\nK00;f\n")
    assert list(frame_of_cells(table, cells, tmp_path).icd) == ["I20.0", "I21", "J00", "I20.1"]
    (tmp_path / "icd.csv").write_text("I20.0\n")
    with pytest.raises(conclave.ConclaveError, match="has no code in it"):
        frame_of_cells(table, cells, tmp_path)


def test_cells_as_text():
    for value, text in [(3, "3"), (3.0, "3"), (-0.25, "-0.25"), (np.float32(0.5), "0.5"), (True, "1"),
                        (np.bool_(0), "0"), (None, ""), (float("nan"), ""), (pd.NA, ""), (pd.NaT, ""), ("a b", "a b"),
                        (datetime.date(2024, 2, 29), "2024-02-29"),
                        (pd.Timestamp(2024, 2, 29, 13), "2024-02-29 13:00:00"),
                        (np.datetime64("2024-02-29T00:00:00"), "2024-02-29")]:
        assert cell_text(value) == text


NUMBER = {"kind": "integer", "lower": 0, "upper": 99}


def test_constraints_and_moves():
    a, b = {"name": "a", **NUMBER}, {"name": "b", **NUMBER, "nullable": True}
    c = {"name": "c", "kind": "categorical", "categories": ["x", "y", "z"], "nullable": True}
    table = schema(a, b, c, constraints=[
        {"when": [{"column": 0, "any": [[0, 15], [70, 70]]}], "then": {"column": 2, "any": [None, [1, 1]]},
         "move": True},
        {"when": [{"column": 0, "any": [[50, 50]]}, {"column": 2, "any": [[0, 0], [2, 2]]}]},
        {"follows": {"from": 2, "column": 1, "as": [[2, 7], [None, 3]]}, "move": True},
        {"order": {"first": 0, "second": 1, "strict": True}},
    ])
    nan = np.nan
    cells = np.array([[10, 20, 0], [10, 20, 1], [70, 80, 2], [50, 60, 2], [40, 40, 0], [40, nan, 0], [1, 2, nan],
                      [3, 7, 2]])
    assert list(table.broken(cells)) == [1, 0, 1, 2, 4, 0, 3, 1]
    moved = cells.copy()
    table.move(moved, False)
    np.testing.assert_array_equal(moved, [[10, 3, nan], [10, 20, 1], [70, 3, nan], [50, 7, 2], [40, 40, 0],
                                          [40, nan, 0], [1, 3, nan], [3, 3, nan]])
    table.move(cells, True)
    assert list(cells[4]) == [40, 41, 0]
    assert list(table.broken(cells)) == [3, 0, 3, 2, 0, 0, 0, 3]


def test_dates_are_compared_by_the_coarser_one():
    order = [{"order": {"first": 0, "second": 1, "strict": True}}]
    table = schema(DAY, MONTH, constraints=order)
    cells = np.array([[30.0, 0], [30, 1], [31, 1], [424, 14], [np.nan, 0], [3652, 119]])
    assert list(table.broken(cells)) == [1, 0, 1, 0, 0, 1]
    table.move(cells, True)
    assert list(cells[:, 1]) == [1, 1, 2, 14, 0, 119]  # nothing in the column is late enough for the last one
    table = schema(MONTH, DAY, constraints=[{"order": {"first": 0, "second": 1, "strict": False}}])
    cells = np.array([[1, 30.0], [1, 31], [1, 45]])
    assert list(table.broken(cells)) == [1, 0, 0]
    table.move(cells, True)
    assert list(cells[:, 1]) == [31, 31, 45]


def test_numbers_are_encoded_and_come_back():
    for column in (Column("a", "integer", upper=99999, scale="log"), Column("a", "integer", lower=-5, upper=2_000_000),
                   Column("a", "continuous", upper=30), Column("a", "continuous", upper=1e6, clip=(0, 12)),
                   Column("a", "continuous", upper=1, points=(1 / 3, 0.7))):
        scaler, (lo, hi) = Scaler(column), column.range()
        whole = column.kind == "integer"
        values = np.array([lo, hi, lo + 1, (lo + hi) // 2] if whole else [lo, hi, round(hi / 4, 3), *column.points])
        features = scaler.encode(values).astype(np.float32)
        np.testing.assert_array_equal(scaler.decode(features), values)
        assert list(scaler.decode(np.array([-3, 7], np.float32))) == [lo, hi]


def test_repeated_columns_are_written_out():
    table = schema({"name": "p", "kind": "binary", "repeat": 3})
    assert [c.name for c in table.columns] == ["p_0", "p_1", "p_2"] and table.columns[2].declared == "binary"
