"""Model folders: what is read of them, and what is refused."""

import json
import shutil
import struct

import numpy as np
import pandas as pd
import pytest

import conclave
from conclave import model as models
from conclave import safetensors
from conclave.tree import Tree


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of the output folder of a run that may be damaged."""
    return shutil.copytree(trained("embed").folder.parent, tmp_path / "copy", ignore=shutil.ignore_patterns("state"))


def test_folders_that_are_loaded(trained):
    model = trained("marginals")
    for folder in (model.folder, model.folder.parent, model.folder.parents[1], str(model.folder)):
        assert conclave.Model.load(folder).folder == model.folder
    assert model.epsilon == 1 and model.certificate["pipeline"] == "marginals"
    assert [c.kind for c in model.schema.columns] == ["integer", "categorical", "integer", "continuous", "continuous",
                                                      "integer", "continuous", "binary", "binary"]
    assert model.schema.columns[6].nullable and model.schema.columns[6].range() == (0, 12)


def test_a_model_without_its_certificate(copy, tmp_path):
    shutil.move(str(copy / "model"), tmp_path / "alone")
    model = conclave.Model.load(tmp_path / "alone")
    assert model.certificate is None and model.epsilon is None and len(model.sample(3)) == 3


def test_folders_that_are_refused(copy, tmp_path):
    with pytest.raises(conclave.ConclaveError, match="has no model.json; give the model folder of a finished run"):
        conclave.Model.load(tmp_path)
    path = copy / "model" / "model.json"
    good = path.read_text("utf-8")
    for change, message in [
        ({"format": 2}, "format 2 is unknown to this version; update the program"),
        ({"schema": None}, "it is damaged"),
        ({"class_shares": "x"}, "it is damaged"),
        ({"weights_sha256": "00"}, "generator.safetensors: the file was changed after the training"),
        ({"schema_sha256": "00"}, "schema.yaml: the file was changed after the training"),
    ]:
        path.write_text(json.dumps({**json.loads(good), **change}))
        with pytest.raises(conclave.ConclaveError, match=message):
            conclave.Model.load(copy)
    path.write_text(json.dumps({k: v for k, v in json.loads(good).items() if k != "schema"}))
    with pytest.raises(conclave.ConclaveError, match="is of an earlier version"):
        conclave.Model.load(copy)
    path.write_text(good[:-9])
    with pytest.raises(conclave.ConclaveError, match="it is damaged"):
        conclave.Model.load(copy)


def test_other_models_are_drawn_by_the_program(copy, program, monkeypatch, trained):
    """A kind that is not known here is left to the program, whose rows have the same types."""
    monkeypatch.setattr(models, "_drawn_here", lambda fields: None)
    monkeypatch.delenv("CONCLAVE_BINARY", raising=False)
    monkeypatch.setenv("PATH", str(copy))
    with pytest.raises(conclave.ConclaveError, match="a model of kind dense is drawn by the program alone: the"):
        conclave.Model.load(copy).sample(5)
    model = conclave.Model.load(copy, binary=program)
    rows = model.sample(300, where="label=1", seed=0)
    assert (rows.label == 1).all() and list(rows.dtypes) == list(trained("embed").sample(5).dtypes)
    assert rows.creatinine.isna().any()
    pd.testing.assert_frame_equal(rows, model.sample(300, where="label=1", seed=0))
    with pytest.raises(conclave.ConclaveError, match="no such class"):
        model.sample(5, where="age=70")


def test_images(program, tmp_path):
    """Images of convolutions are drawn by the program, as a DataFrame of pixels."""
    rng, n = np.random.default_rng(1), 200
    labels = rng.integers(0, 2, n).astype(np.uint8)
    pixels = (rng.random((n, 8, 8)) * 100 + labels[:, None, None] * 100).astype(np.uint8)
    path = tmp_path / "some-images-idx3-ubyte"
    path.write_bytes(struct.pack(">IIII", 0x803, n, 8, 8) + pixels.tobytes())
    (tmp_path / "some-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, n) + labels.tobytes())
    schema = {"format": "idx", "image": {"height": 8, "width": 8, "channels": 1}, "label": "digit", "columns": [
        {"name": "p", "kind": "integer", "lower": 0, "upper": 255, "repeat": 64},
        {"name": "digit", "kind": "categorical", "categories": ["0", "1"]}]}
    model = conclave.fit(path, schema, 5, delta=1e-4, rows=20, out=tmp_path / "out", binary=program,
                         embed={"fit": {"steps": 5, "batch": 20}, "student": {"hidden": 4}},
                         relabel={"directions": 20})
    assert model._fields["generator"]["kind"] == "convolution" and model._drawer is None
    assert model.schema.image == {"height": 8, "width": 8, "channels": 1}
    rows = model.sample(30, where={"digit": 1}, seed=1)
    assert rows.shape == (30, 65) and (rows.digit == "1").all() and str(rows.p_63.dtype) == "Int64"


@pytest.mark.parametrize("fields, drawn", [
    ({"kind": "tree"}, True), ({"kind": "network", "generator": {"kind": "dense"}}, True), ({"generator": {}}, True),
    ({"kind": "network", "generator": {"kind": "convolution"}}, False), ({"generator": {"warp": 1}}, False),
    ({"kind": "histograms"}, False),
])
def test_what_is_drawn_here(fields, drawn):
    assert (models._drawn_here(fields) is not None) == drawn


def test_numbers_of_rows(trained):
    for n in (0, -1, 10_000_001):
        with pytest.raises(conclave.ConclaveError, match="ask for 1 to 10,000,000"):
            trained("marginals").sample(n)


def test_arguments_that_are_no_numbers(trained):
    model = trained("marginals")
    for n in ("5", 1.5, None):
        with pytest.raises(conclave.ConclaveError, match="n is .*, which is no whole number"):
            model.sample(n)
    for seed, message in ((-1, "seed is -1; ask for 0 to"), (1.5, "seed is 1.5, which is no"), (1 << 63, "seed is 9")):
        with pytest.raises(conclave.ConclaveError, match=message):
            model.sample(5, seed=seed)
    assert len(model.sample(np.int64(3), seed=np.int64(0))) == 3


def test_certificates_that_are_damaged(copy):
    for text in ("{", "[]", "{}", '{"epsilon": null}'):
        (copy / "certificate.json").write_text(text)
        with pytest.raises(conclave.ConclaveError, match="certificate.json: it is damaged; copy the run's output"):
            conclave.Model.load(copy)


def test_a_program_that_is_another(copy, tmp_path, monkeypatch):
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho '[]'\n")
    fake.chmod(0o755)
    with pytest.raises(conclave.ConclaveError, match="gave no answer to `conclave verify`; name the program"):
        conclave.verify(copy, binary=fake)
    monkeypatch.setattr(models, "_drawn_here", lambda fields: None)
    with pytest.raises(conclave.ConclaveError, match="wrote no rows of the model; name the program"):
        conclave.Model.load(copy, binary=fake).sample(5)
    with pytest.raises(conclave.ConclaveError, match="no text that a program can be given"):
        conclave.Model.load(copy, binary=fake).sample(5, where="label=\ud800")


def test_verification(copy, trained, program):
    whole = conclave.verify(trained("embed").folder.parents[1], binary=program)
    assert whole.holds and bool(whole) and whole.verdict == "unsigned" and whole.run == "fit"
    assert any(c.what == "ledger.jsonl" and c.state == "proven" for c in whole.checks)
    assert "proven    ledger.jsonl: " in str(whole)
    authority = trained("embed").folder.parent / "state" / "certs" / "ca.crt"
    assert conclave.verify(copy, authority=authority, binary=program).verdict == "proven"
    with open(copy / "synthetic.csv", "a", encoding="utf-8") as f:
        f.write("70,F,1996,1,1,1,1,0,0\n")
    changed = conclave.verify(copy, binary=program)
    assert not changed and changed.verdict == "failed"
    with pytest.raises(conclave.ConclaveError, match="give the output folder of a run"):
        conclave.verify(copy / "nothing", binary=program)


def test_weights_that_are_damaged(trained):
    """What is cut or no tensor is an error, and no other one."""
    raw = (trained("embed").folder / "generator.safetensors").read_bytes()
    assert safetensors.tensors(raw, "w")["layer0.bias"].shape == (128,)
    size = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:size])
    cut = [raw[:n] for n in (0, 7, 8, 100, size, len(raw) - 1)]
    for change in ({"dtype": "F16"}, {"data_offsets": [8, 4]}, {"data_offsets": [0]}, {"shape": [3]}, {"shape": "x"}):
        text = json.dumps({**header, "layer0.bias": {**header["layer0.bias"], **change}}).encode()
        cut.append(len(text).to_bytes(8, "little") + text + raw[size:])
    for damaged in [*cut, (2).to_bytes(8, "little") + b"[]", b"\xff" * 40]:
        with pytest.raises(conclave.ConclaveError, match="w is damaged .*; copy the model folder again"):
            safetensors.tensors(damaged, "w")


def test_a_tree_without_rows():
    with pytest.raises(ValueError, match="no row is possible"):
        Tree([2], [{"columns": [0], "parent": -1}], [np.zeros(2)])


def test_a_tree_keeps_what_is_expected():
    """Of 10 rows each cell gets the whole part of its share, in each group of rows that agree."""
    tables = [np.array([0.5, 0.5]), np.array([0.1, 0.4, 0.3, 0.2])]
    tree = Tree([2, 2], [{"columns": [0], "parent": -1}, {"columns": [0, 1], "parent": 0}], tables)
    a, b = tree.draw(20, np.random.default_rng(1))
    assert [((a == i) & (b == j)).sum() for i in (0, 1) for j in (0, 1)] == [2, 8, 6, 4]
    given = tree.given({1: np.array([0, 1])})
    assert given is not None and (given.draw(9, np.random.default_rng(1))[1] == 1).all()
    assert tree.given({1: np.zeros(2)}) is None
