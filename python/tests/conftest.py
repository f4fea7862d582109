"""What tests share: the program, the example's rows, and models that are trained once."""

import os
from pathlib import Path

import pandas as pd
import pytest

import conclave

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flchain"

CONSTRAINTS = """constraints:
  - {if: {age: "<60"}, then: {mgus: 0}, broken: move}
  - {at_most: [kappa, lambda], broken: move}
  - {never: {sex: M, flc_group: [9, 10]}}
"""


@pytest.fixture(scope="session", autouse=True)
def own_register(tmp_path_factory):
    """The register of data files of whoever runs this stays as it is."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def program():
    """The path of the program."""
    path = os.environ.get("CONCLAVE_BINARY")
    if not path:
        pytest.skip("CONCLAVE_BINARY names no program; build one with go build ./cmd/conclave")
    return path


@pytest.fixture(scope="session")
def rows():
    """The example's rows."""
    return pd.read_csv(EXAMPLE / "train.csv.gz")


@pytest.fixture(scope="session")
def trained(program, tmp_path_factory):
    """A function that trains a model of the example by a pipeline, once, with constraints or without."""
    models = {}

    def train(pipeline, constrained=False):
        key = pipeline, constrained
        if key not in models:
            table, schema = EXAMPLE / "train.csv.gz", EXAMPLE / "schema.yaml"
            if constrained:
                table = pd.read_csv(table)
                table = table[(table.sex == "F") | (table.flc_group < 9)]
                schema = schema.read_text("utf-8") + CONSTRAINTS
            models[key] = conclave.fit(
                table, schema, 1, delta=1e-5, pipeline=pipeline, rows=100, binary=program, evaluate={"hold_out": 0},
                out=tmp_path_factory.mktemp("run") / "out", embed={"fit": {"steps": 40}})
        return models[key]

    return train
