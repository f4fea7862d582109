"""Lists of codes: they are read as the program reads them, and lie beside the schema that fit writes."""

import os
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

import conclave
from conclave import codes

from test_draw import by_program

SCHEMA = {"columns": [{"name": "icd", "kind": "code", "prefixes": ["I", "J"], "codes": "icd.csv"},
                      {"name": "died", "kind": "binary"}]}
LISTS = {
    "plain": "I20\nI21\n\nJ45\n", "a header": " Code \nI20\nJ45", "upper": "\ufeffCODE;name\r\nI20;a, b\r\nJ45;c\r\n",
    "a line break": '"I20","one\ntwo ""three""\r\nfour",x\nJ45,"y"\n', "a comma": '"I20.0,a",x\nJ45,y\n',
    "a vertical tab": "I20\x0bI21\nJ45\n", "two quotes": '"I2""0",a\n"J4"5"\n', "open": 'I20\nJ45,"\nI99\n',
    "spaces": "\xa0I20\u2003\nJ45\x0c\n\x1cI3\n", "carriage returns": "I20\rI21\rJ45\r", "the last": "I20\nJ45\r",
    "tabs": "I20\ta,b\nJ45\tc", "a long code": "I20\nJ" + "4" * 64, "empty": "code\n\n\"\"\n", "no J": "I20\nK1\n",
    "Latin-1": "I20;G\xe4nge\nJ45;x\n".encode("latin-1"), "Latin-1 in a code": "I20\nJ4\xe45\n".encode("latin-1"),
    "quoted header": '"code","a\nb"\nI20\nJ45\n', "pipes": "CODES|a\nI20|b;c\nJ45|d",
    "ICD": "\n \nicd-10 GM\nI20\nJ45", "a word": "Schl\u00fcssel;a\nI20;b\nJ45;c", "words": "DEU\nI20\nJ\n",
    "another delimiter": "Code\nI20|a\nJ45|b\n", "an open quote": 'I20;a\nJ45;"b\nI21;c\n', "a code in quotes": '"I20\nI21",x\nJ45\n',
}


def table(n=60):
    return pd.DataFrame({"icd": np.where(np.arange(n) % 3, "I20", "J45"), "died": np.arange(n) % 2})


@pytest.fixture(scope="module")
def trained_on_codes(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("codes")
    with pytest.warns(UserWarning, match="icd.csv: the list of codes is not there: the synthetic rows hold prefixes"):
        return conclave.fit(table(), SCHEMA, 5, delta=1e-3, rows=10, out=folder / "out", binary=program)


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_read_as_by_the_program(trained_on_codes, program, tmp_path, name):
    """Either program draws the same codes, or refuses the list."""
    shutil.copytree(trained_on_codes.folder, tmp_path / "model")
    content = LISTS[name] if isinstance(LISTS[name], bytes) else LISTS[name].encode()
    (tmp_path / "model" / "icd.csv").write_bytes(content)
    model = conclave.Model.load(tmp_path / "model")
    there = subprocess.run([program, "sample", "--model", tmp_path / "model", "--rows", "200", "--out", "-"],
                           capture_output=True)
    if there.returncode:
        with pytest.raises(conclave.ConclaveError) as error:
            model.sample(200, seed=1)
        said = str(error.value).split("icd.csv: ")[1]
        assert said in there.stderr.decode() or "no code of icd.csv has the prefix" in there.stderr.decode()
    else:
        assert set(model.sample(200, seed=1).icd) == set(by_program(model, program, rows=200).icd)


def test_lines_of_errors(tmp_path):
    path = tmp_path / "icd.csv"
    for content, message in ((b'I20,"\n"\nJ\xff\n', "line 3 is not UTF-8; save the file as UTF-8"),
                             (b'I20\n"a\nb",x\n', "line 2 does not begin with a code of at most 64 bytes"),
                             (b'I20,"\n"\nJ|x\n', "line 3 has another delimiter than the first line"),
                             (b'I20,"\n"\n"J"x\n', "line 3 has broken quotes; double the quotes in a cell"),
                             (b"", "there is no code; put the codes in the first column")):
        path.write_bytes(content)
        with pytest.raises(conclave.ConclaveError, match=message):
            codes.read(path)
    with pytest.raises(conclave.ConclaveError, match="cannot read the list of codes"):
        codes.read(tmp_path)


def test_a_list_that_is_missing_is_warned_of(trained_on_codes, program):
    model = trained_on_codes
    for rows in (lambda: model.sample(20, seed=1), lambda: by_program(model, program, rows=20)):
        with pytest.warns(UserWarning, match="icd.csv: the list of codes of icd is not there: the rows hold prefixes"):
            assert set(rows().icd) == {"I", "J"}


@pytest.mark.parametrize("form", ["path", "text", "relative", "absolute"])
def test_lists_go_with_the_schema(program, tmp_path, monkeypatch, form):
    """A schema that is written has its lists beside it, so that the run writes codes."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "icd.csv").write_text("I20\nJ45\n")
    (tmp_path / "lists" / "schema.yaml").write_text(
        "columns:\n  - {name: icd, kind: code, prefixes: [I, J], codes: icd.csv}\n  - {name: died, kind: binary}\n")
    schema, label = tmp_path / "lists" / "schema.yaml", None
    monkeypatch.chdir(tmp_path)
    if form == "path":
        label = "died"
    elif form == "text":
        schema = schema.read_text()
        monkeypatch.chdir(tmp_path / "lists")
    else:
        path = "lists/icd.csv" if form == "relative" else tmp_path / "lists" / "icd.csv"
        schema = {"columns": [{**SCHEMA["columns"][0], "codes": path}, SCHEMA["columns"][1]]}
    out = tmp_path / "out"
    conclave.fit(table(), schema, 5, delta=1e-3, label=label, rows=30, out=out, binary=program)
    assert sorted(os.listdir(out)) == ["icd.csv", "result", "run.yaml", "schema.yaml"]
    assert set(pd.read_csv(out / "result" / "synthetic.csv").icd) == {"I20", "J45"}
    assert not (out / "result" / "model" / "icd.csv").exists()


def test_two_lists_of_one_name_are_refused(program, tmp_path):
    columns = [{"name": n, "kind": "code", "prefixes": ["I"], "codes": tmp_path / n / "icd.csv"} for n in "ab"]
    with pytest.raises(conclave.ConclaveError, match="have one name; rename one of the lists of codes"):
        conclave.fit(table(), {"columns": columns}, 1, delta=1e-3, out=tmp_path / "out", binary=program)
