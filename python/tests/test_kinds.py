"""All kinds of columns, from a DataFrame to rows that are drawn here and by the program."""

import numpy as np
import pandas as pd
import pytest

import conclave

from test_draw import alike, by_program

CODES = ["I20.0", "I20.1", "I21", "I25.9", "J45", "J46"]
SCHEMA = """label: died
columns:
  - {name: admitted, kind: date, lower: 2019-12-30, upper: 2022-12-31, format: DD.MM.YYYY, resolution: week}
  - {name: left, kind: date, lower: 2020-01-01, upper: 2023-06-30, resolution: day, nullable: true}
  - {name: seen, kind: datetime, lower: 2020-01-01, upper: 2023-06-30, resolution: hour}
  - {name: icd, kind: code, prefixes: [I20, I2, J]}
  - {name: id, kind: identifier, pattern: "P-###"}
  - {name: died, kind: binary}
constraints:
  - {at_most: [admitted, left], broken: move}
  - {at_most: [admitted, seen]}
"""


@pytest.fixture(scope="module")
def table():
    rng, n = np.random.default_rng(1), 1500
    admitted = np.datetime64("2020-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    left = pd.Series(admitted + rng.integers(0, 60, n).astype("timedelta64[D]"))
    left[rng.random(n) < 0.1] = pd.NaT
    seen = admitted.astype("datetime64[h]") + rng.integers(0, 2000, n).astype("timedelta64[h]")
    return pd.DataFrame({"admitted": admitted, "left": left, "seen": seen, "icd": rng.choice(CODES, n),
                         "id": [f"patient {i}" for i in range(n)], "died": rng.random(n) < 0.4})


@pytest.mark.parametrize("pipeline", ["marginals", "embed"])
def test_all_kinds(program, table, tmp_path, pipeline):
    model = conclave.fit(table, SCHEMA, 3, delta=1e-5, pipeline=pipeline, rows=10, out=tmp_path / "out", binary=program,
                         evaluate={"hold_out": 0}, embed={"fit": {"steps": 40}})
    rows = model.sample(4000, seed=1)
    assert [str(t) for t in rows.dtypes] == ["datetime64[ns]"] * 3 + ["category", "string", "Int64"]
    assert (rows.admitted.dt.dayofweek == 0).all() and (rows.left.dropna().dt.hour == 0).all()
    assert rows.left.isna().any() and set(rows.icd) == {"I20", "I2", "J"}
    assert list(rows.id[[0, 3999]]) == ["P-001", "P-4000"]
    assert not (rows.admitted > rows.left).any() and not (rows.admitted > rows.seen).any()
    there = by_program(model, program, rows=4000)
    assert list(rows.id) == list(there.id)
    numbers = [t.drop(columns="id").assign(icd=pd.Categorical(t.icd, ["I20", "I2", "J"]),
                                           **{c: (t[c] - pd.Timestamp(2019, 1, 1)).dt.days.astype("Int64")
                                              for c in ("admitted", "left", "seen")}) for t in (rows, there)]
    assert alike(*numbers) == []
    if pipeline == "marginals":
        where = ["admitted>=03.01.2022", "left<2022-03-01", "icd=J"]
        rows = model.sample(300, where=where, seed=1)
        assert rows.admitted.min() >= pd.Timestamp(2022, 1, 3) and rows.left.max() < pd.Timestamp(2022, 3, 1)
        assert set(rows.icd) == {"J"} and len(by_program(model, program, where, rows=300)) == 300
        for text in ("admitted>=04.01.2022", "icd=J45", "id=P-001"):
            with pytest.raises(conclave.ConclaveError):
                model.sample(3, where=text)
