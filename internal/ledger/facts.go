package ledger

import (
	"encoding/hex"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
)

// Facts are the fields of a run's entry other than budget and plan, so that a certificate cannot contradict them.
type Facts struct {
	Student      string `json:"student"` // the student that wanted the run, as in its certificate
	Pipeline     string `json:"pipeline"`
	SchemaSHA256 string `json:"schema_sha256"`
	Teachers     uint32 `json:"teachers"` // number that the run was planned with
	// Coin marks a baseline, whose answers are coin flips.
	Coin    bool   `json:"coin,omitempty"`
	Purpose string `json:"purpose,omitempty"`
	// Study is the run's study, or nil.
	Study *study.Block `json:"study,omitempty"`
	// Earlier are closed runs of the same dataset whose releases also went into this run's rows.
	Earlier []string `json:"earlier,omitempty"`
}

// MaxEarlier bounds the runs that a run continues.
const MaxEarlier = 16

func (f *Facts) validate() error {
	if f == nil {
		return privacy.FieldErrorf("facts", "is missing in an entry of type %s", EntryRun)
	}
	for _, s := range append([]string{f.Student, f.Pipeline, f.Purpose}, f.Earlier...) {
		if !utf8.ValidString(s) {
			return privacy.FieldErrorf("facts", "is not UTF-8")
		}
	}
	if err := f.Study.Validate(); err != nil {
		return privacy.FieldErrorf("facts", "has an invalid study: %v", err)
	}
	switch {
	case f.Student == "" || f.Pipeline == "":
		return privacy.FieldErrorf("facts", "has no student or no pipeline")
	case !isSHA256(f.SchemaSHA256):
		return privacy.FieldErrorf("facts", "has a schema_sha256 that is not a SHA-256 in lower-case hex")
	case f.Teachers == 0:
		return privacy.FieldErrorf("facts", "has no teachers")
	case len(f.Earlier) > MaxEarlier:
		return privacy.FieldErrorf("facts", "lists %d earlier runs; the maximum is %d", len(f.Earlier), MaxEarlier)
	}
	for i, name := range f.Earlier {
		if name == "" || slices.Contains(f.Earlier[:i], name) {
			return privacy.FieldErrorf("facts", "lists an earlier run without a name, or twice")
		}
	}
	return nil
}

// Site is an institution in a run's roster, with its nodes and teachers at the run's first question.
type Site struct {
	Site     string `json:"site"`
	Nodes    uint32 `json:"nodes"`
	Teachers uint32 `json:"teachers"`
}

// MaxSites bounds a roster: an entry must fit a line and a request to etcd.
const MaxSites = 5000

// validateRoster checks an entry's roster: sites sorted by name, each once.
func (e Entry) validateRoster() error {
	if len(e.Roster) > MaxSites {
		return privacy.FieldErrorf("roster", "has %d sites; the maximum is %d", len(e.Roster), MaxSites)
	}
	for i, s := range e.Roster {
		switch {
		case s.Site == "" || !utf8.ValidString(s.Site):
			return privacy.FieldErrorf("roster", "has a site without a name in UTF-8")
		case i > 0 && e.Roster[i-1].Site >= s.Site:
			return privacy.FieldErrorf("roster", "has site %q twice, or not in sorted order", s.Site)
		case s.Nodes == 0 || s.Teachers == 0:
			return privacy.FieldErrorf("roster", "has site %q without nodes or teachers", s.Site)
		}
	}
	return nil
}

// Before are the runs that a run continues, directly and indirectly.
func (v Verification) Before(run string) []string {
	runs := []string{run}
	for i := 0; i < len(runs); i++ {
		for _, name := range v.Runs[runs[i]].Facts.Earlier {
			if !slices.Contains(runs, name) {
				runs = append(runs, name)
			}
		}
	}
	return runs[1:]
}

// opens checks a run's facts against the earlier entries of the ledger.
func (a *verifier) opens(e Entry) error {
	for _, name := range e.Facts.Earlier {
		if before, known := a.result.Runs[name]; !known || !before.Closed {
			return fmt.Errorf("run %q continues run %q, which is not closed before it", e.Run, name)
		}
	}
	return nil
}

// fixRoster records the roster of a run, which must precede its first question.
func (a *verifier) fixRoster(run *RunTotal, e Entry) error {
	if run.Roster != nil || len(a.rounds[e.Run]) > 0 {
		return fmt.Errorf("the roster of run %q was already fixed, or comes after its first question", e.Run)
	}
	run.Roster = e.Roster
	return nil
}

func isSHA256(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && hex.EncodeToString(raw) == s
}
