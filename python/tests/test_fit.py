"""Training: what is written, who can read it, what is left, and the errors."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import conclave

SCHEMA = {"columns": [
    {"name": "age", "kind": "integer", "lower": 0, "upper": 120, "nullable": True},
    {"name": "weight", "kind": "continuous", "lower": 0, "upper": 300},
    {"name": "sex", "kind": "categorical", "categories": ["F", "M"]},
    {"name": "died", "kind": "binary"},
]}


def table(n=300):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({
        "age": pd.array(rng.integers(18, 90, n), dtype="Int64"), "weight": np.round(rng.normal(70, 9, n), 1),
        "sex": pd.Categorical(rng.choice(["F", "M"], n)), "died": rng.random(n) < 0.3})
    frame.loc[3, "age"] = pd.NA
    return frame


def test_a_frame_is_trained_on_and_no_copy_is_left(program, tmp_path, capfd):
    out = tmp_path / "new" / "out"
    model = conclave.fit(table(), SCHEMA, 2, delta=1e-4, label="died", rows=50, seed=3, out=out, binary=program,
                         pipeline="marginals", privacy={"records": 300}, marginals={"cells": 8})
    assert sorted(os.listdir(out)) == ["result", "run.yaml", "schema.yaml"]
    assert all(stat.S_IMODE((out / name).stat().st_mode) == 0o600 for name in ("run.yaml", "schema.yaml"))
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert (out / "run.yaml").read_text() == f"""name: fit
schema: "{out}/schema.yaml"
data:
  - {{file: "{out}/rows.csv", site: here}}
privacy: {{epsilon: 2, delta: 0.0001, records: 300}}
release: {{rows: 50}}
pipeline: marginals
seed: 3
marginals: {{cells: 8}}
"""
    assert model.epsilon == 2 and model.certificate["delta"] == 1e-4 and model.certificate["rows"] == 50
    assert model.schema.label == "died" and model.schema.classes == ("0", "1")
    assert "round 3/3" in capfd.readouterr().err
    rows = model.sample(40, seed=1)
    assert {n: str(t) for n, t in rows.dtypes.items()} == {"age": "Int64", "weight": "float64", "sex": "category",
                                                           "died": "Int64"}
    assert list(rows.sex.cat.categories) == ["F", "M"] and rows.weight.between(0, 300).all()


def test_what_the_program_reads(program, tmp_path):
    """The copy of the rows is private, and has the cells of the frame."""
    seen = tmp_path / "seen"
    fake = tmp_path / "conclave"
    fake.write_text(f'#!/bin/sh\nrows="$(dirname "$3")/rows.csv"\nstat -Lc %a "$rows" > {seen}\ncat "$rows" >> {seen}\n'
                    "echo 'conclave: no such luck; try again' >&2\nexit 1\n")
    fake.chmod(0o755)
    frame = pd.DataFrame({
        "whole": [1.0, np.nan, 3.0], "part": [0.1, 1e-7, 1e22], "yes": [True, False, True],
        "text": ["a,b", 'c"d', None],
        "day": pd.to_datetime(["2024-02-29", None, "1999-12-31"]),
        "time": pd.to_datetime(["2024-02-29 13:07", "2024-02-29 00:00:00", None])})
    with pytest.raises(conclave.ConclaveError) as error:
        conclave.fit(frame, SCHEMA, 1, delta=1e-5, out=tmp_path / "out", binary=fake)
    assert str(error.value) == "no such luck; try again"
    assert seen.read_text() == """600
whole,part,yes,text,day,time
1,0.1,1,"a,b",2024-02-29,2024-02-29 13:07:00
,1e-07,0,"c""d",,2024-02-29
3,1e+22,1,,1999-12-31,
"""
    assert not (tmp_path / "out" / "rows.csv").exists()


def test_schemas_in_all_forms(program, tmp_path):
    """A file stays where it is, a text is written, and a label is added to both."""
    table().to_csv(tmp_path / "rows.csv", index=False)
    text = "columns:\n  - {name: age, kind: integer, lower: 0, upper: 120, nullable: true}\n" \
           "  - {name: weight, kind: continuous, lower: 0, upper: 300}\n" \
           "  - {name: sex, kind: categorical, categories: [F, M]}\n" \
           "  - {name: died, kind: categorical, categories: ['False', 'True']}\n"
    (tmp_path / "schema.yaml").write_text(text)
    for i, (schema, label) in enumerate([(tmp_path / "schema.yaml", None), (str(tmp_path / "schema.yaml"), "died"),
                                         (text, None), (text, "died")]):
        out = tmp_path / f"out{i}"
        model = conclave.fit(tmp_path / "rows.csv", schema, 2, delta=1e-4, label=label, rows=10, out=out,
                             binary=program)
        assert model.schema.label == (label or "")
        assert (out / "schema.yaml").exists() == (i > 0)
    assert (tmp_path / "rows.csv").exists()
    for schema in (f"label: sex\n{text}", {**SCHEMA, "label": "sex"}):
        with pytest.raises(conclave.ConclaveError, match="the schema names a label of its own"):
            conclave.fit(table(), schema, 2, label="died", out=tmp_path / "other", binary=program)
        (tmp_path / "other").rmdir()
    with pytest.raises(conclave.ConclaveError, match="cannot read the schema"):
        conclave.fit(table(), tmp_path / "none.yaml", 2, label="died", out=tmp_path / "other", binary=program)


def test_a_folder_for_temporary_files_is_named(program, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = conclave.fit(table(), SCHEMA, 2, delta=1e-4, rows=10, binary=program)
    assert model.folder.parents[2] == tmp_path
    assert f"the results are kept in {model.folder.parents[1]}\n" in capsys.readouterr().err


@pytest.mark.parametrize("change, message", [
    ({"epsilon": 0}, "epsilon"),
    ({"delta": None}, "privacy.delta: missing"),
    ({"table": table().assign(age=200)}, 'column "age"'),
    ({"table": table().drop(columns="sex")}, '"sex"'),
    ({"schema": {"columns": [{"name": "age", "kind": "number"}]}}, 'unknown kind "number"'),
    ({"marginals": {"cels": 3}}, "run.yaml: "),
    ({"cels": 3}, "run.yaml: "),
    ({"table": table().set_index("sex")}, 'the DataFrame, column "sex": the column is missing from the header; add it '
     "to the DataFrame, or remove it from the schema if no other site uses it; the DataFrame has it as its index: use "
     "table.reset_index()"),
    ({"table": table().assign(extra="x")}, 'the DataFrame, column "extra": the column is not in the schema; remove it '
     "from the DataFrame"),
    ({"table": table().set_axis(range(4), axis=1)},
     "the DataFrame's columns are named 0, 1, 2, ...: set table.columns"),
])
def test_errors_of_the_program(program, tmp_path, change, message):
    given = {"table": table(), "schema": SCHEMA, "epsilon": 1, "delta": 1e-5, **change}
    with pytest.raises(conclave.ConclaveError) as error:
        conclave.fit(**given, out=tmp_path / "out", binary=program)
    assert message in str(error.value) and not str(error.value).startswith("conclave:")
    assert str(tmp_path) not in str(error.value) and os.listdir(tmp_path / "out") == []


def test_a_refused_run_is_tried_again_in_its_folder(program, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    for out in (tmp_path / "out", None):
        with pytest.raises(conclave.ConclaveError, match="300 times outside the bounds"):
            conclave.fit(table().assign(age=200), SCHEMA, 2, delta=1e-4, out=out, binary=program)
    assert os.listdir(tmp_path / "temporary") == []
    model = conclave.fit(table(), SCHEMA, 2, records=300, rows=10, out=tmp_path / "out", binary=program)
    assert model.certificate["delta"] == 1e-5


@pytest.mark.parametrize("change, message", [
    ({"privacy": {"epsilon": 5}}, "privacy.epsilon is given twice, as epsilon= too; leave one of them out"),
    ({"privacy": {"delta": 5}}, "privacy.delta is given twice"),
    ({"records": 9, "privacy": {"records": 5}}, "privacy.records is given twice"),
    ({"rows": 20, "release": {"rows": 7}}, "release.rows is given twice"),
    ({"release": 7}, "release= is a int; pass a dict"),
    ({"data": [{"site": "a", "file": "b.csv"}]}, "data= names a file, and the table is another one"),
    ({"data": "b.csv"}, "data= is no list of dicts"),
    ({"table": None}, "the table is a NoneType; pass a DataFrame or the path of a file"),
    ({"table": table().age}, "the table is a Series"),
    ({"table": table().assign(age=[[1]] * 300)}, 'column "age" has cells that are no single values'),
    ({"table": table().assign(age=[{"secret": 1}] * 300)}, 'column "age" has cells that are no single values'),
    ({"table": pd.DataFrame({"name": ["secret \ud800"]})}, 'column "name" has a text with half a character'),
    ({"table": pd.DataFrame({"\ud800": [1]})}, "rows.csv: it has half a character"),
    ({"table": pd.concat([table()], axis=1, keys=["a"])}, "names of several levels"),
    ({"table": table().set_index(list(SCHEMA["columns"][i]["name"] for i in range(4)))},
     "the DataFrame has no columns; the index is none, use table.reset_index()"),
    ({"schema": None}, "the schema is a NoneType; pass a dict"),
    ({"schema": conclave.Schema(())}, "the schema is a Schema; pass a dict, the path of a schema.yaml"),
    ({"schema": "{columns: []}", "label": "died"}, "the schema is written in braces; write its label there"),
    ({"schema": {"name": "\ud800"}}, "schema.yaml: it has half a character"),
    ({"schema": {"columns": [{"name": "a", "lower": None}]}}, "columns[0].lower: a NoneType has no place in YAML"),
    ({"epsilon": float("nan")}, "privacy.epsilon: nan has no place in YAML; use texts, finite numbers"),
])
def test_what_is_refused_before_the_program(tmp_path, change, message):
    fake = tmp_path / "conclave"
    fake.write_text("#!/bin/sh\necho 'conclave: it was started' >&2\nexit 1\n")
    fake.chmod(0o755)
    given = {"table": table(), "schema": SCHEMA, "epsilon": 1, "delta": 1e-5, **change}
    with pytest.raises(conclave.ConclaveError) as error:
        conclave.fit(**given, out=tmp_path / "out", binary=fake)
    assert message in str(error.value)
    assert "secret" not in "".join(traceback.format_exception(None, error.value, None))
    assert not (tmp_path / "out").exists() or os.listdir(tmp_path / "out") == []


def test_data_of_several_sites(program, tmp_path):
    sites = [{"site": "a", "share": 0.5}, {"site": "b", "share": 0.5}]
    conclave.fit(table(), SCHEMA, 2, delta=1e-4, rows=10, out=tmp_path / "out", binary=program, data=sites)
    assert "rows.csv\", site: b, share: 0.5}" in (tmp_path / "out" / "run.yaml").read_text()


def test_categories_are_written_as_cells_are(program, tmp_path):
    """A category 2.0 is the cell 2, and True the cell 1."""
    frame = pd.DataFrame({"grade": [1.0, 2.5, None] * 50, "yes": [True, False, True] * 50})
    schema = {"columns": [{"name": "grade", "kind": "categorical", "categories": [1.0, np.float64(2.5)],
                           "nullable": True}, {"name": "yes", "kind": "categorical", "categories": [False, True]}]}
    model = conclave.fit(frame, schema, 5, delta=1e-4, rows=10, out=tmp_path / "out", binary=program)
    assert [c.categories for c in model.schema.columns] == [("1", "2.5"), ("0", "1")]


def test_a_schema_in_one_line_is_no_path(program, tmp_path):
    (tmp_path / "a: b").write_text("columns: [{name: sex, kind: categorical, categories: [F, M]}]\n")
    for schema in ("columns: [{name: sex, kind: categorical, categories: [F, M]}]",
                   '{"columns": [{"name": "sex", "kind": "categorical", "categories": ["F", "M"]}]}',
                   str(tmp_path / "a: b")):
        out = tmp_path / f"out{len(schema)}"
        model = conclave.fit(table()[["sex"]], schema, 2, delta=1e-4, rows=10, out=out, binary=program)
        assert model.schema.columns[0].categories == ("F", "M")


def test_errors_before_the_program(tmp_path, program):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(conclave.ConclaveError, match="is not an empty folder; name another one"):
        conclave.fit(table(), SCHEMA, 1, out=tmp_path / "full", binary=program)
    zoned = pd.DataFrame({"t": pd.to_datetime(["2024-01-01"]).tz_localize("Europe/Berlin")})
    with pytest.raises(conclave.ConclaveError, match="has a time zone"):
        conclave.fit(zoned, SCHEMA, 1, out=tmp_path / "out", binary=program)


def test_the_program_is_found(monkeypatch, tmp_path):
    from conclave.program import find

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CONCLAVE_BINARY", raising=False)
    with pytest.raises(conclave.ConclaveError, match="is not found; build it with `go build ./cmd/conclave`"):
        find()
    for name in ("conclave", "other"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find() == str(tmp_path / "conclave")
    monkeypatch.setenv("CONCLAVE_BINARY", str(tmp_path / "other"))
    assert find() == str(tmp_path / "other")
    assert find(tmp_path / "conclave") == str(tmp_path / "conclave")
    with pytest.raises(conclave.ConclaveError, match="is no program; name the file `conclave`"):
        find(tmp_path / "none")


def test_an_interrupt_ends_the_program_and_leaves_no_copy(tmp_path):
    fake = tmp_path / "conclave"
    fake.write_text(f"#!/bin/sh\ntrap 'touch {tmp_path}/ended; exit 1' INT\ntouch {tmp_path}/begun\n"
                    "for i in $(seq 600); do sleep 0.05; done\n")
    fake.chmod(0o755)

    def interrupt():
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        conclave.fit(table(), SCHEMA, 1, delta=1e-5, out=tmp_path / "out", binary=fake)
    thread.join()
    assert (tmp_path / "ended").exists() and os.listdir(tmp_path / "out") == []


def test_an_interrupt_as_the_program_starts_ends_it_too(tmp_path, monkeypatch):
    started = []

    def start(*arguments, **named):
        started.append(popen(*arguments, **named))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    fake = tmp_path / "conclave"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        conclave.fit(table(), SCHEMA, 1, delta=1e-5, out=tmp_path / "out", binary=fake)
    assert started[0].returncode == -signal.SIGINT and os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_process_ends_the_program_and_leaves_no_copy(tmp_path, number):
    fake = tmp_path / "conclave"
    fake.write_text(f"#!/bin/sh\ntrap 'touch {tmp_path}/ended; exit 1' INT\ntouch {tmp_path}/begun\n"
                    "for i in $(seq 600); do sleep 0.05; done\n")
    fake.chmod(0o755)
    frame = "pandas.DataFrame({'x': [0, 1]}), {'columns': [{'name': 'x', 'kind': 'binary'}]}"
    process = subprocess.Popen([sys.executable, "-c", "import conclave, pandas\n"
                                f"conclave.fit({frame}, 1, out={str(tmp_path / 'out')!r}, binary={str(fake)!r})"],
                               env={**os.environ, "PYTHONPATH": str(Path(conclave.__file__).parents[1])},
                               # nohup has its children ignore SIGHUP.
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    try:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.01)
        assert os.path.lexists(tmp_path / "out" / "rows.csv")
        process.send_signal(number)
        assert process.wait(60) == -number
    finally:
        process.kill()
    assert (tmp_path / "ended").exists() and os.listdir(tmp_path / "out") == []


@pytest.mark.skipif(sys.platform != "linux", reason="files lose their names on Linux")
def test_no_rows_are_left_where_the_process_is_killed(tmp_path):
    """The program still reads them, and nobody finds them in the folder."""
    fake = tmp_path / "conclave"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nwhile [ ! -e {tmp_path}/killed ]; do sleep 0.02; done\n"
                    f'cat "$(dirname "$3")/rows.csv" > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/read\n')
    fake.chmod(0o755)
    frame = "pandas.DataFrame({'x': [0, 1]}), {'columns': [{'name': 'x', 'kind': 'binary'}]}"
    process = subprocess.Popen([sys.executable, "-c", "import conclave, pandas\n"
                                f"conclave.fit({frame}, 1, out={str(tmp_path / 'out')!r}, binary={str(fake)!r})"],
                               env={**os.environ, "PYTHONPATH": str(Path(conclave.__file__).parents[1])})
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not any(path.is_file() and "x\n0\n1" in path.read_text() for path in (tmp_path / "out").iterdir())
    (tmp_path / "killed").touch()
    while not (tmp_path / "read").exists():
        time.sleep(0.01)
    assert (tmp_path / "read").read_text() == "x\n0\n1\n"


def test_a_program_for_another_machine(tmp_path):
    fake = tmp_path / "conclave"
    fake.write_bytes(b"\x7fELF of another machine")
    fake.chmod(0o755)
    with pytest.raises(conclave.ConclaveError, match="cannot be started .*; build it on this machine"):
        conclave.verify(tmp_path, binary=fake)
