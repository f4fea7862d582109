"""Training: what is written, who can read it, what is left, and the errors."""

import os
import signal
import stat
import tempfile
import threading
import time

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
    assert "round 2/2" in capfd.readouterr().err
    rows = model.sample(40, seed=1)
    assert {n: str(t) for n, t in rows.dtypes.items()} == {"age": "Int64", "weight": "float64", "sex": "category",
                                                           "died": "Int64"}
    assert list(rows.sex.cat.categories) == ["F", "M"] and rows.weight.between(0, 300).all()


def test_what_the_program_reads(program, tmp_path):
    """The copy of the rows is private, and has the cells of the frame."""
    seen = tmp_path / "seen"
    fake = tmp_path / "conclave"
    fake.write_text(f'#!/bin/sh\nrows="$(dirname "$3")/rows.csv"\nstat -c %a "$rows" > {seen}\ncat "$rows" >> {seen}\n'
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
    ({"table": table().assign(age=200)}, 'column "age"'),
    ({"table": table().drop(columns="sex")}, '"sex"'),
    ({"schema": {"columns": [{"name": "age", "kind": "number"}]}}, 'unknown kind "number"'),
    ({"marginals": {"cels": 3}}, "cels"),
])
def test_errors_of_the_program(program, tmp_path, change, message):
    given = {"table": table(), "schema": SCHEMA, "epsilon": 1, "delta": 1e-5, **change}
    with pytest.raises(conclave.ConclaveError) as error:
        conclave.fit(**given, out=tmp_path / "out", binary=program)
    assert message in str(error.value) and not str(error.value).startswith("conclave:")
    assert not (tmp_path / "out" / "rows.csv").exists()


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
                    "while true; do sleep 0.05; done\n")
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
    assert (tmp_path / "ended").exists() and sorted(os.listdir(tmp_path / "out")) == ["run.yaml", "schema.yaml"]


def test_a_program_for_another_machine(tmp_path):
    fake = tmp_path / "conclave"
    fake.write_bytes(b"\x7fELF of another machine")
    fake.chmod(0o755)
    with pytest.raises(conclave.ConclaveError, match="cannot be started .*; build it on this machine"):
        conclave.verify(tmp_path, binary=fake)
