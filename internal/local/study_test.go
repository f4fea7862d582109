package local

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const studyText = `name: heart
title: Heart failure in three hospitals
purpose: Synthetic rows for teaching
permit: IRB 2026-114
contact: Dr. Berg, +49 30 1234
expires: 2099-06-30
dataset: d
schema: schema.yaml
budget: {epsilon: 5, delta: 1e-4}
pipelines: [pategan]
aggregator: {hosts: [localhost]}
sites: [s0, s1]
students: [lab]
`

// ending is a clock by which the study of studyText ends after this many rounds were charged.
func ending(rounds int64) aggregator.Hooks {
	var charged atomic.Int64
	return aggregator.Hooks{
		AfterCharge: func(string, uint64) { charged.Add(1) },
		Now: func() time.Time {
			if charged.Load() >= rounds {
				return time.Date(2099, 7, 1, 0, 0, 0, 0, time.UTC)
			}
			return time.Date(2099, 6, 30, 12, 0, 0, 0, time.UTC)
		},
	}
}

func beginStudy(t *testing.T) (text, dir, out string) {
	t.Helper()
	text = runOn("table.csv", votes) + "study: study.yaml\n"
	dir = folder(t, false)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(studyText), 0o644))
	return text, dir, filepath.Join(dir, "out")
}

// A study that ends in the middle of a run ends the run: it publishes what it learned, and ledger, certificate
// and report name the study.
func TestARunEndsWithItsStudy(t *testing.T) {
	t.Parallel()
	text, dir, out := beginStudy(t)
	spec := load(t, dir, text)
	result, err := Run(t.Context(), spec, Options{Out: out, Hooks: ending(4)})
	testkit.Must(t, err)
	c, v := verified(t, out)
	total := v.Runs[spec.Name]
	if !total.Closed || total.Releases != 4 || result.Rounds != 4 {
		t.Errorf("%d releases, closed %v; result %+v", total.Releases, total.Closed, result)
	}
	if of := c.Study; of == nil || of.Permit != "IRB 2026-114" || of.SHA256 != study.Hash([]byte(studyText)) ||
		!of.Is(total.Facts.Study) || c.Purpose != "Synthetic rows for teaching" {
		t.Errorf("the certificate has %+v, the ledger %+v", c.Asked, total.Facts)
	}
	c.Study = nil
	if err := c.Against(v, testkit.Read(t, filepath.Join(out, "ledger.jsonl"))); err == nil ||
		!strings.Contains(err.Error(), "study is {Name:heart") {
		t.Errorf("a certificate without the study: %v", err)
	}
	for _, name := range []string{"report.html", "report.md", "report.json"} {
		page := string(testkit.Read(t, filepath.Join(out, name)))
		for _, want := range []string{"Heart failure in three hospitals", "IRB 2026", study.Hash([]byte(studyText))} {
			if !strings.Contains(strings.ReplaceAll(page, `\`, ""), want) {
				t.Errorf("%s does not have %q", name, want)
			}
		}
	}
}

// After the end of a study no run can be opened, and a study that ends before the first answer costs nothing;
// both ledgers verify.
func TestARunOfAStudyThatHasEndedCostsNothing(t *testing.T) {
	t.Parallel()
	text, dir, out := beginStudy(t)
	spec := load(t, dir, text)
	if _, err := Run(t.Context(), spec, Options{Out: out, Hooks: ending(0)}); err == nil ||
		!strings.Contains(err.Error(), student.ErrStudy.Error()) {
		t.Fatalf("error %v", err)
	}
	for _, e := range stored(t, out) {
		if e.Type != ledger.EntryOpen {
			t.Errorf("the ledger has %+v", e)
		}
	}
	var calls atomic.Int64
	hooks := aggregator.Hooks{Now: func() time.Time {
		if calls.Add(1) > 1 { // after the run was opened
			return time.Date(2099, 7, 1, 0, 0, 0, 0, time.UTC)
		}
		return time.Date(2099, 6, 30, 12, 0, 0, 0, time.UTC)
	}}
	if _, err := Run(t.Context(), spec, Options{Out: out, Hooks: hooks}); err == nil ||
		!strings.Contains(err.Error(), student.ErrStudy.Error()) {
		t.Fatalf("error %v", err)
	}
	var types []string
	for _, e := range stored(t, out) {
		types = append(types, e.Type)
	}
	if got := strings.Join(types, " "); got != "open run close" {
		t.Errorf("the ledger has %s", got)
	}
}
