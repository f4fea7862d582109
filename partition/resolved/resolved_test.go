package resolved

import (
	"encoding/json"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"columns": {`name: clinic
label: died
columns:
  - {name: patient, role: unit}
  - {name: age, kind: integer, lower: 18, upper: 110, clip: [20, 90], spikes: [65]}
  - {name: cost, kind: continuous, lower: 0, upper: 1e6, scale: log, nullable: true, doc: euros}
  - {name: sex, kind: categorical, categories: [F, 1.50], names: [female, other]}
  - {name: died, kind: binary}
`, `{"name":"clinic","task":"binary","label":"died","positive":"1","columns":[{"name":"patient","kind":"text",` +
			`"role":"unit"},{"name":"age","kind":"integer","lower":18,"upper":110,"clip":[20,90],"scale":"linear",` +
			`"points":[65]},{"name":"cost","kind":"continuous","lower":0,"upper":1000000,"scale":"log","nullable":` +
			`true,"doc":"euros"},{"name":"sex","kind":"categorical","categories":["F","1.50"],"names":["female",` +
			`"other"]},{"name":"died","kind":"binary"}]}`},
		"kinds": {`columns:
  - {name: admitted, kind: date, lower: 2019-12-30, upper: 2022-12-31, format: DD.MM.YYYY, resolution: week}
  - {name: seen, kind: datetime, lower: 2020-01-01T06:00, upper: 2020-01-02}
  - {name: icd, kind: code, prefixes: [I20, I2, J], codes: icd.csv, nullable: true}
  - {name: id, kind: identifier, pattern: "P-###"}
`, `{"task":"none","columns":[{"name":"admitted","kind":"integer","declared":"date","start":` +
			`"2019-12-30T00:00:00","resolution":"week","format":"DD.MM.YYYY","lower":0,"upper":156,"scale":"linear"},` +
			`{"name":"seen","kind":"integer","declared":"datetime","start":"2020-01-01T06:00:00","resolution":` +
			`"minute","format":"YYYY-MM-DD hh:mm","lower":0,"upper":2519,"scale":"linear"},{"name":"icd","kind":` +
			`"categorical","declared":"code","codes":"icd.csv","categories":["I20","I2","J"],"nullable":true},` +
			`{"name":"id","kind":"text","declared":"identifier","pattern":"P-###"}]}`},
		"constraints": {`columns:
  - {name: age, kind: integer, lower: 0, upper: 99}
  - {name: job, kind: categorical, categories: [none, clerk], nullable: true}
  - {name: a, kind: continuous, lower: 0, upper: 9}
  - {name: b, kind: continuous, lower: 0, upper: 9}
constraints:
  - {if: {age: "<16"}, then: {job: ["", none]}, broken: move}
  - {never: {age: 70, job: clerk}}
  - {less: [a, b]}
  - {column: age, follows: job, as: {clerk: 40, "": 3}}
`, `{"task":"none","columns":[{"name":"age","kind":"integer","lower":0,"upper":99,"scale":"linear","` +
			`points":[3,16,40,70]},{"name":"job","kind":"categorical","categories":["none","clerk"],"nullable` +
			`":true},{"name":"a","kind":"continuous","lower":0,"upper":9,"scale":"linear"},{"name":"b","kind"` +
			`:"continuous","lower":0,"upper":9,"scale":"linear"}],"constraints":[{"move":true,"when":[{"colum` +
			`n":0,"any":[[0,15]]}],"then":{"column":1,"any":[null,[0,0]]}},{"when":[{"column":0,"any":[[70,70` +
			`]]},{"column":1,"any":[[1,1]]}]},{"order":{"first":2,"second":3,"strict":true}},{"follows":{"fro` +
			`m":1,"column":0,"as":[[1,40],[null,3]]}}]}`},
		"repeats": {`columns:
  - {name: p, kind: binary, repeat: 3}
  - {name: q_0, kind: binary}
  - {name: q_1, kind: binary, nullable: true}
`, `{"task":"none","columns":[{"name":"p","repeat":3,"kind":"binary"},{"name":"q_0","kind":"binary"},` +
			`{"name":"q_1","kind":"binary","nullable":true}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(Of(partitiontest.Schema(t, c.yaml)))
			testkit.Must(t, err)
			testkit.Same(t, "the schema in JSON", c.want, string(got))
		})
	}
}
