package study

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const good = `name: heart
title: Heart failure in three hospitals
purpose: Synthetic rows for teaching
permit: IRB 2026-114
contact: Dr. Berg, +49 30 1234
expires: 2027-06-30
dataset: heart
schema: schema.yaml
budget: {epsilon: 2, delta: 1e-6}
pipelines: [marginals]
aggregator: {hosts: [agg.example.org]}
sites: [north, south, west]
students: [lab]
`

func TestAStudyIsRead(t *testing.T) {
	s := testkit.Value(Parse([]byte(good)))
	if s.Unit != "record" || s.Overlap != 1 || s.Teachers != 100 || s.Aggregator.Port != 7443 ||
		s.Budget.Filter != "gdp" {
		t.Errorf("defaults %+v", s)
	}
	end := testkit.Value(s.End())
	if want := time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC); !end.Equal(want) {
		t.Errorf("ends at %v, want %v", end, want)
	}
	if a, b := Hash([]byte(good)), Hash([]byte(good+"\n")); a == b || len(a) != 64 {
		t.Errorf("hashes %s and %s", a, b)
	}
}

func TestWhatIsWrongInAStudyIsToldAtOnce(t *testing.T) {
	for _, change := range []struct{ from, to, says string }{
		{"name: heart\n", "name: Heart\n", "name: "},
		{"title: Heart failure in three hospitals\n", "", "title: none"},
		{"permit: IRB 2026-114\n", "permit: \"two\\nlines\"\n", "permit: "},
		{"2027-06-30", "next year", "expires: "},
		{"dataset: heart", "dataset: Heart", "dataset: "},
		{"schema: schema.yaml\n", "", "schema: none"},
		{"epsilon: 2", "epsilon: 0", "budget: "},
		{"delta: 1e-6}", "delta: 1e-6, filter: pld}", "budget.filter: "},
		{"[marginals]", "[]", "pipelines: none"},
		{"[agg.example.org]", "[]", "aggregator.hosts: none"},
		{"hosts: [agg.example.org]", "hosts: [a], port: 70000", "aggregator.port: 70000"},
		{"[north, south, west]", "[north, north]", "sites[1]: "},
		{"[marginals]", "[\"marginals]\\n    approval: automatic #\"]", "pipelines, stages: "},
		{"pipelines:", "stages: [\"\\e[2K\"]\npipelines:", "pipelines, stages: "},
		{"pipelines:", "unit: \"a\\nb\"\npipelines:", "unit: "},
		{"[agg.example.org]", "[a, a]", "aggregator.hosts[1]: "},
		{"[lab]", "[lab]\nteachers: 70000", "teachers: 70000"},
		{"[agg.example.org]", "['agg.example.org:1']", "aggregator.hosts: "},
		{"[lab]", "[worker]", "students: "},
		{"[lab]", "[]", "students: none"},
		{"sites: [north, south, west]", "masked: true\nsites: [north]", "masked: "},
		{"sites: [north, south, west]", "overlap: 4\nsites: [north, south, west]", "overlap: 4"},
		{"sites: [north, south, west]", "teachers: 0\nsites: [north, south, west]", "teachers: 0"},
		{"title:", "titel:", "titel"},
	} {
		text := strings.Replace(good, change.from, change.to, 1)
		if text == good {
			t.Fatalf("%q is not in the study", change.from)
		}
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), change.says) {
			t.Errorf("%q instead of %q: error %v, want one that says %q", change.to, change.from, err, change.says)
		}
	}
	wrong := strings.NewReplacer("name: heart", "name: Heart", "[lab]", "[]").Replace(good)
	if _, err := Parse([]byte(wrong)); err == nil || !strings.Contains(err.Error(), "name:") ||
		!strings.Contains(err.Error(), "students:") {
		t.Errorf("two mistakes: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatalf("a study that was read is not valid: %v", err)
		}
	})
}
