package runfile

import (
	"strings"
	"testing"

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
	if got := s.Warnings(codes); len(got) != 1 || !strings.Contains(got[0], "The list of codes of icd is not beside") {
		t.Errorf("a run without its list of codes is warned of: %q", got)
	}
	if s.Privacy.Unit = "person"; len(s.Warnings(persons)) > 0 {
		t.Error("a run that protects persons is warned that it does not")
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
