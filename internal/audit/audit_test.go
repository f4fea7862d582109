package audit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// full audits every case with a thousand runs in each world.
var full = flag.Bool("audit.full", false, "audit all cases (about a minute)")

// The real thing keeps its claim. An audit finds a violation by chance once in 1,000 times at
// most, by its confidence, and in 3,000 simulated ones of as many runs 4 bounds were below 0.1,
// so that 5 in 1,000 are an upper bound of 99.9% confidence. One that fails is repeated: all
// of 5 fail with a chance below 1e-11. Where half of the noise is missing they all find it
// with a chance of 0.87 (486 of 500 simulated ones did), where all of it is, always.
func TestClaimHolds(t *testing.T) {
	cases, runs := []string{"gnmax-histogram"}, 501 // more in all than an aggregator lets a student open by itself
	switch {
	case *full:
		cases, runs = Cases(), 1000
	case testing.Short():
		runs = 100
	}
	for _, name := range cases {
		failed := ""
		for range 5 {
			if failed = auditOnce(t, name, runs); failed == "" {
				break
			}
			t.Log(failed)
		}
		if failed != "" {
			t.Error(failed)
		}
	}
}

// auditOnce audits one case and says what is wrong.
func auditOnce(t *testing.T, name string, runs int) string {
	t.Helper()
	o := DefaultOptions()
	o.Cases, o.Runs = []string{name}, runs
	calls := 0
	o.Watch = func(name string, done, total int) {
		if calls++; done != calls || total != 2*o.Runs {
			t.Errorf("%s: told of %d of %d runs at call %d", name, done, total, calls)
		}
	}
	results, err := Run(t.Context(), o)
	testkit.Must(t, err)
	views := 1
	if name == "masked" {
		views = 3
	}
	if len(results) != views || calls != 2*runs {
		t.Fatalf("%d results of %d runs, want %d of %d", len(results), calls, views, 2*runs)
	}
	for _, r := range results {
		t.Logf("%s: claim %.3f, bound %.3f, %.1f s", r.Name(), r.Epsilon, r.LowerBound.Epsilon, r.Seconds)
		switch {
		case r.Case != name || r.Runs != runs:
			t.Fatalf("%d runs in each world, want %d: %+v", r.Runs, runs, r)
		case r.Violation:
			return r.Verdict()
		// An audit that sees nothing would hold as well. (Winners show little, and masks nothing.)
		case !testing.Short() && !strings.HasSuffix(name, "-winner") && r.View != ViewAnswers &&
			r.LowerBound.Epsilon < 0.1:
			return fmt.Sprintf("%s: the bound is %v; the test has no power", r.Name(), r.LowerBound.Epsilon)
		}
	}
	return ""
}

// A small run of everything: the ledger has what the spec asks for. There are so few trials
// that none can be called a violation by chance.
func TestClaimIsTheLedgers(t *testing.T) {
	o := DefaultOptions()
	o.Runs = MinRuns
	results, err := Run(t.Context(), o)
	testkit.Must(t, err)
	cases, err := scenarios(Cases(), o.budget())
	testkit.Must(t, err)
	wanted := map[string]*scenario{}
	for _, s := range cases {
		wanted[s.name] = s
	}
	var names []string
	for _, r := range results {
		if r.View == "" || r.View == ViewAnswers {
			names = append(names, r.Case)
		}
		if want := wanted[r.Case].events(); !slices.Equal(r.Events, want) {
			t.Errorf("%s: the ledger has %+v, want %+v", r.Case, r.Events, want)
		}
		if int64(r.Queries) != wanted[r.Case].asked() {
			t.Errorf("%s: %d queries in %d rounds", r.Case, r.Queries, r.Rounds)
		}
		claim, err := privacy.Account(r.Events, o.Delta)
		if r.View == ViewAnswers {
			if r.Epsilon != 0 || r.Delta != 0 || r.Accountant != AccountantMasks {
				t.Errorf("%s: something may show: %+v", r.Name(), r)
			}
			continue
		}
		if err != nil || claim.Epsilon != r.Epsilon || claim.Accountant != r.Accountant {
			t.Errorf("%s: the claim is %v by %s, the events say %+v (%v)", r.Case, r.Epsilon, r.Accountant, claim, err)
		}
		if r.Epsilon > o.Epsilon || r.Epsilon < o.Epsilon/2 {
			t.Errorf("%s: a run claims epsilon %v of a budget of %v", r.Case, r.Epsilon, o.Epsilon)
		}
		if r.Violation || r.Verdict() != "no violation seen" {
			t.Errorf("%s: %s", r.Case, r.Verdict())
		}
	}
	testkit.Same(t, "", Cases(), names)
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := DefaultOptions()
	o.Runs, o.Cases = 100, []string{"lnmax-winner"}
	o.Watch = func(_ string, done, _ int) {
		if done == 20 {
			cancel()
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"runs":       func(o *Options) { o.Runs = 3 },
		"epsilon":    func(o *Options) { o.Epsilon = 0 },
		"delta":      func(o *Options) { o.Delta = 0.5 },
		"confidence": func(o *Options) { o.Confidence = 1 },
		"parallel":   func(o *Options) { o.Parallel = 0 },
		"no case":    func(o *Options) { o.Cases = []string{"none"} },
	} {
		o := DefaultOptions()
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSelect(t *testing.T) {
	for word, want := range map[string][]string{
		"all":          Cases(),
		"gnmax":        {"gnmax-winner", "gnmax-histogram", "gnmax-overlap"},
		"laplace":      {"class-counts"},
		"gaussian":     {"masked"},
		"lnmax-winner": {"lnmax-winner"},
	} {
		if got, err := Select(word); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v", word, got, err)
		}
	}
	if _, err := Select("gauss"); err == nil {
		t.Error("an unknown word was taken")
	}
}

func TestUnevenCharges(t *testing.T) {
	event := privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 5, Sigma1: 2, Sigma2: 2, Asked: 8, Answered: 3}
	more := event
	more.Answered = 6
	events, err := common(map[string][]privacy.Event{"a": {event}, "b": {more}})
	if err != nil || len(events) != 1 || events[0].Answered != 8 {
		t.Errorf("runs that differ in what was answered: %+v, %v", events, err)
	}
	more.Asked = 9
	if _, err := common(map[string][]privacy.Event{"a": {event}, "b": {more}}); !errors.Is(err, errUneven) {
		t.Errorf("runs that differ in what was asked: %v", err)
	}
}
