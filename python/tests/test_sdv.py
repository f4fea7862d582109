"""SDV's metadata: there and back."""

import datetime
import json

import numpy as np
import pytest

import conclave
from conclave.yaml_text import yaml_text

METADATA = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "primary_key": "visit_id", "sequence_key": "patient",
    "columns": {
        "visit_id": {"sdtype": "id", "regex_format": "V-[0-9]{6}"}, "patient": {"sdtype": "id"},
        "age": {"sdtype": "numerical", "computer_representation": "Int64"}, "cost": {"sdtype": "numerical"},
        "sex": {"sdtype": "categorical"}, "died": {"sdtype": "boolean"}, "e-mail": {"sdtype": "email", "pii": True},
        "visit": {"sdtype": "datetime", "datetime_format": "%d.%m.%Y"},
        "seen": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M"},
    },
}
TODO = {"lower": "TODO", "upper": "TODO", "source": "TODO"}
SCHEMA = {"ignore": ["e-mail"], "columns": [
    {"name": "visit_id", "kind": "identifier", "pattern": "V-######"}, {"name": "patient", "role": "unit"},
    {"name": "age", "kind": "integer", **TODO}, {"name": "cost", "kind": "continuous", **TODO},
    {"name": "sex", "kind": "categorical", "categories": "TODO", "source": "TODO"}, {"name": "died", "kind": "binary"},
    {"name": "visit", "kind": "date", **TODO, "format": "DD.MM.YYYY"},
    {"name": "seen", "kind": "datetime", **TODO, "format": "YYYY-MM-DD hh:mm"},
]}


def test_schema_of_metadata(tmp_path):
    assert conclave.schema_from_sdv(METADATA) == SCHEMA
    (tmp_path / "metadata.json").write_text(json.dumps({"tables": {"visits": METADATA}}))
    assert conclave.schema_from_sdv(tmp_path / "metadata.json") == SCHEMA


def test_there_and_back():
    back = conclave.schema_to_sdv(SCHEMA)
    assert back.pop("sequence_key") == "patient" and back["primary_key"] == "visit_id"
    assert back["METADATA_SPEC_VERSION"] == "SINGLE_TABLE_V1" and list(back["columns"])[-1] == "e-mail"
    want = {**METADATA["columns"], "e-mail": {"sdtype": "text", "pii": True},
            "cost": {"sdtype": "numerical", "computer_representation": "Float"}}
    assert back["columns"] == want
    assert conclave.schema_from_sdv({**back, "sequence_key": "patient"}) == SCHEMA
    assert list(conclave.schema_to_sdv({"columns": [{"name": "p", "kind": "binary", "repeat": 2}]})["columns"]) == [
        "p_0", "p_1"]


@pytest.mark.parametrize("regex, pattern, back", [
    ("V-[0-9]{6}", "V-######", "V-[0-9]{6}"), (r"\d\d/x", "##/x", "[0-9]{2}/x"),
    (r"K\.\([0-9]{2}\)", "K.(##)", r"K\.\([0-9]{2}\)"), (r"a\-\\[0-9]", "a-\\#", r"a-\\[0-9]{1}"),
    ("[0-9]{3}-[0-9]{4}", None, None), ("[A-Z]{3}[0-9]{2}", None, None), ("[0-9]{1,3}", None, None),
    ("K.[0-9]", None, None), ("#[0-9]", None, None), ("[0-9]{19}", None, None), (r"\w[0-9]", None, None),
    ("x", None, None),
])
def test_identifiers(regex, pattern, back):
    """A pattern has one row of digits and says no more than its text; others are left out."""
    schema = conclave.schema_from_sdv({"columns": {"a": {"sdtype": "id", "regex_format": regex}}})
    assert schema["columns"][0].get("pattern") == pattern
    assert conclave.schema_to_sdv(schema)["columns"]["a"].get("regex_format") == back


def test_a_primary_key_is_the_only_identifier():
    two = {"columns": [{"name": n, "kind": "identifier"} for n in "ab"]}
    assert "primary_key" not in conclave.schema_to_sdv(two)


@pytest.mark.parametrize("schema", [None, {}, "schema.yaml", {"columns": {}}, {"columns": [3]}, {"columns": [{}]}])
def test_schemas_that_are_refused(schema):
    with pytest.raises(conclave.ConclaveError, match="the schema is no dict with a list of columns"):
        conclave.schema_to_sdv(schema)


@pytest.mark.parametrize("metadata, message", [
    (None, "the metadata is a NoneType"), ([], "the metadata is a list"), ({"columns": {"a": 3}}, "has no columns"),
    ({"tables": {"a": 3}}, "has no columns"),
    ({}, "the metadata has no columns"),
    ({"tables": {"a": {}, "b": {}}}, "has 2 tables; a schema is about one"),
    ({"columns": {"a": {"sdtype": "phone_number"}}}, 'column "a" is of type phone_number'),
    ({"columns": {"a": {"sdtype": "datetime", "datetime_format": "%d %b %Y"}}}, "has the format %d %b %Y"),
    ("none.json", "cannot read SDV's metadata"),
])
def test_metadata_that_is_refused(metadata, message):
    with pytest.raises(conclave.ConclaveError, match=message):
        conclave.schema_from_sdv(metadata)


def test_a_schema_with_todo_is_not_trained_on(program, tmp_path):
    with pytest.raises(conclave.ConclaveError, match="(?i)todo|lower"):
        conclave.fit(tmp_path / "none.csv", conclave.schema_from_sdv({"columns": {"age": {"sdtype": "numerical"}}}), 1,
                     delta=1e-5, out=tmp_path / "out", binary=program)


def test_yaml():
    document = {"label": "died", "columns": [{"name": "no", "categories": ["1", 2, 2.5, "a: b", "é"]}],
                "rows": np.int64(3), "day": datetime.date(2024, 2, 29), "x": {"z": True}, "none": []}
    assert yaml_text(document) == """label: died
columns:
  - {name: "no", categories: ["1", 2, 2.5, "a: b", é]}
rows: 3
day: 2024-02-29
x: {z: true}
none: []
"""
    for value in (None, float("nan"), object()):
        with pytest.raises(conclave.ConclaveError, match="has no place in YAML"):
            yaml_text({"a": value})
