package runfile

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func TestWarnings(t *testing.T) {
	persons := partitiontest.Schema(t, "columns:\n  - {name: person, role: unit}\n  - {name: x, kind: binary}\n")
	records := partitiontest.Schema(t, "columns:\n  - {name: x, kind: binary}\n")
	s := DefaultSpec()
	s.Privacy.Epsilon, s.Privacy.Delta, s.Privacy.Records = 12, 0.01, 1000
	if got := s.Warnings(persons); len(got) != 3 || !strings.Contains(got[0], "above 10") ||
		!strings.Contains(got[1], "1/1000") || !strings.Contains(got[2], "privacy.unit: person") {
		t.Errorf("the warnings are %q", got)
	}
	s.Privacy.Epsilon, s.Privacy.Delta = 1, 1e-6
	if got := s.Warnings(records); len(got) > 0 {
		t.Errorf("a usual run is warned of: %q", got)
	}
	codes := partitiontest.Schema(t, "columns:\n  - {name: icd, kind: code, prefixes: [I, J], codes: icd.csv}\n")
	if got := s.Warnings(codes); len(got) != 1 || !strings.Contains(got[0], "The list of codes of icd is not next to") {
		t.Errorf("a run without its list of codes is warned of: %q", got)
	}
	if s.Privacy.Unit = "person"; len(s.Warnings(persons)) > 0 {
		t.Error("a run that protects persons is warned that it does not")
	}
}

func TestDeltaByThePublicNumber(t *testing.T) {
	for yaml, want := range map[string]float64{
		"epsilon: 1, records: 1000": 1e-5, "epsilon: 1, records: 10000": 1e-5, "epsilon: 1, records: 2000000": 5e-8,
		"epsilon: 1, records: 1000, delta: 1e-4": 1e-4, "epsilon: 1, records: 1000, delta: -1": 1e-5,
	} {
		s, err := load(t, "name: r1\nschema: schema.yaml\nteachers: 4\nprivacy: {"+yaml+"}\n")
		testkit.Must(t, err)
		if math.Abs(s.Privacy.Delta/want-1) > 1e-12 {
			t.Errorf("%s: delta %v, want %v", yaml, s.Privacy.Delta, want)
		}
		said := strings.Join(s.Warnings(partitiontest.Schema(t, schemaText)), "\n")
		number := fmt.Sprintf("where %d is the public number of records.", s.Privacy.Records)
		if chosen := want != 1e-4; strings.Contains(said, number) != chosen {
			t.Errorf("%s: the warnings are %q", yaml, said)
		}
	}
	_, err := load(t, "name: r1\nschema: schema.yaml\nteachers: 4\nprivacy: {epsilon: 0}\n")
	for _, want := range []string{"privacy.delta: missing; set it well below one over the public number of privacy " +
		"units, or set",
		"privacy: epsilon is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err = load(t, "name: r1\nschema: schema.yaml\nteachers: 4\nprivacy: {epsilon: 1, records: 10, delta: 0}\n")
	if err == nil || !strings.Contains(err.Error(), "privacy: delta is 0") {
		t.Errorf("a delta of 0 that somebody wrote: %v", err)
	}
}

func TestSiteNames(t *testing.T) {
	s := DefaultSpec()
	s.Data = []Data{{Site: "north"}, {Site: "south"}}
	if got := strings.Join(s.SiteNames(), " "); got != "north south" {
		t.Errorf("the sites are %s", got)
	}
	s.Aggregation.Members = []Member{{Site: "east"}}
	if got := strings.Join(s.SiteNames(), " "); got != "east" {
		t.Errorf("the members are %s", got)
	}
}
