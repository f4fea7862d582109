package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"pgregory.net/rapid"
)

// writer appends entries as a coordinator does.
type writer struct {
	t       testing.TB
	entries []Entry
	spent   map[string][]privacy.Event
	deltas  map[string]float64
	plans   map[string]privacy.Plan
	prices  map[string]float64 // of plans
}

func newWriter(t testing.TB, budget privacy.Budget) *writer {
	w := &writer{t: t, spent: map[string][]privacy.Event{}, deltas: map[string]float64{},
		plans: map[string]privacy.Plan{}, prices: map[string]float64{}}
	w.add(Entry{Type: EntryOpen,
		Opening: Opening{Budget: &budget, Unit: "record", Neighbouring: "add-or-remove-one-unit"}})
	return w
}

// add seals any entry, valid or not.
func (w *writer) add(e Entry) {
	w.t.Helper()
	if !e.OfQuestion() {
		e.Day = FormatDay(time.Date(2026, 1, 2, 3, 4, len(w.entries), 5e6, time.UTC))
	}
	if e.Dataset == "" {
		e.Dataset = "flchain"
	}
	if e.Fence == 0 {
		e.Fence = 7
	}
	var previous *Entry
	if n := len(w.entries); n > 0 {
		previous = &w.entries[n-1]
	}
	if err := e.Seal(previous); err != nil {
		w.t.Fatal(err)
	}
	w.entries = append(w.entries, e)
}

func (w *writer) open(run string, budget privacy.Budget) {
	w.t.Helper()
	w.deltas[run], w.plans[run] = budget.Delta, unlimited()
	w.add(Entry{Type: EntryRun, Run: run, Opening: Opening{Budget: &budget, Plan: unlimited(), Facts: facts}})
}

// release pays with the plan entry that has the event's mechanism.
func (w *writer) release(run string, round uint64, event privacy.Event) {
	w.t.Helper()
	plan := w.plans[run]
	if plan == nil {
		plan = unlimited() // the run was not opened
	}
	w.pay(run, releaseOf(plan, round, event))
}

// pay adds a release with the run's spending after it.
func (w *writer) pay(run string, e Entry) {
	w.t.Helper()
	w.spent[run] = privacy.Merge(append(w.spent[run], e.Events...))
	e.Run, e.EpsilonSpent = run, w.epsilon(run)
	w.add(e)
}

func (w *writer) close(run string) {
	w.t.Helper()
	w.add(Entry{Type: EntryClose, Run: run, Charge: Charge{EpsilonSpent: w.epsilon(run)}})
}

func (w *writer) epsilon(run string) float64 {
	w.t.Helper()
	p := privacy.Spending{Budget: privacy.Budget{Delta: w.deltas[run]}, PlanEpsilon: w.prices[run], Spent: w.spent[run]}
	epsilon, err := p.EpsilonSpent()
	if err != nil {
		w.t.Fatal(err)
	}
	return epsilon
}

// bytes is the ledger file.
func (w *writer) bytes() []byte {
	w.t.Helper()
	var out bytes.Buffer
	for _, e := range w.entries {
		line, err := e.Canonical()
		if err != nil {
			w.t.Fatal(err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

var (
	confident = privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 120.5, Sigma1: 300, Sigma2: 200, Asked: 32,
		Answered: 30}
	shares = privacy.Event{Kind: privacy.Laplace, Epsilon: 0.05, Count: 1}
	labels = privacy.Event{Kind: privacy.GNMax, Sigma: 150, Count: 32}
	dear   = privacy.Event{Kind: privacy.Laplace, Epsilon: 1.9, Count: 1}
	lnmax  = privacy.Event{Kind: privacy.LNMax, Lambda: 1e-3, Count: 32}
	summed = privacy.Event{Kind: privacy.Gaussian, Sigma: 20, Sensitivity: 1, Count: 1}
)

// goodLedger has two runs, interleaved and closed.
func goodLedger(t testing.TB) *writer {
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.open("one", privacy.Budget{Epsilon: 1, Delta: 1e-5})
	w.release("one", 0, shares)
	w.release("one", 1, confident)
	w.open("two", privacy.Budget{Epsilon: 2, Delta: 1e-6})
	w.release("two", 0, labels)
	w.release("one", 2, confident)
	w.close("one")
	w.release("two", 1, labels)
	w.close("two")
	return w
}

func verify(ledger []byte) (Verification, error) { return Verify(bytes.NewReader(ledger)) }

func verifyStrict(ledger []byte) (Verification, error) { return VerifyStrict(bytes.NewReader(ledger)) }

func TestVerify(t *testing.T) {
	w := goodLedger(t)
	v, err := verify(w.bytes())
	testkit.Must(t, err)
	if v.Entries != 10 || v.Head != w.entries[9].Hash || v.Dataset != "flchain" || v.Unit != "record" ||
		v.Budget.Epsilon != 3 {
		t.Errorf("verification is %+v", v)
	}
	if audited, err := verifyStrict(w.bytes()); err != nil || audited.Head != v.Head {
		t.Errorf("the audit says %+v, %v", audited, err)
	}
	for name, want := range map[string]Asked{
		"one": {Releases: 3, Queries: 1 + 32 + 32, Answered: 1 + 30 + 30},
		"two": {Releases: 2, Queries: 64, Answered: 64},
	} {
		run := v.Runs[name]
		if !run.Closed || run.Releases != want.Releases || run.Queries != want.Queries ||
			run.Answered != want.Answered {
			t.Errorf("run %s is %+v", name, run)
		}
		price := mustAccount(t, w.spent[name], w.deltas[name])
		closeTo(t, "epsilon of run "+name, run.Price.Epsilon, price.Epsilon, 1e-12)
		if running := w.epsilon(name); run.Price.Epsilon > running {
			t.Errorf("run %s: the price %v is above the running figure %v", name, run.Price.Epsilon, running)
		}
	}
	all := mustAccount(t, append(w.spent["one"], w.spent["two"]...), 1e-5)
	closeTo(t, "epsilon of the dataset", v.Price.Epsilon, all.Epsilon, 1e-12)
}

func TestVerifyFindsAnOpenRun(t *testing.T) {
	w := goodLedger(t)
	w.entries = w.entries[:9]
	v, err := verify(w.bytes())
	var unclosed *UnclosedError
	if !errors.Is(err, ErrUnclosed) || !errors.As(err, &unclosed) || !slices.Equal(unclosed.Runs, []string{"two"}) {
		t.Fatalf("error is %v", err)
	}
	if v.Entries != 9 || v.Runs["two"].Releases != 2 || v.Runs["two"].Price.Epsilon <= 0 || v.Price.Epsilon <= 0 {
		t.Errorf("the verification was not filled in: %+v", v)
	}
	w.entries = w.entries[:2] // a run without any release
	if v, err = verify(w.bytes()); !errors.Is(err, ErrUnclosed) || v.Runs["one"].Price.Epsilon != 0 {
		t.Errorf("a new run: %+v, %v", v, err)
	}
}

// Every byte of a ledger matters: a flipped bit is detected in every byte, and all 255 other values in some bytes.
func TestVerifyFindsEveryFlippedByte(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.open("one", privacy.Budget{Epsilon: 1, Delta: 1e-5})
	w.release("one", 0, labels)
	w.close("one")
	good := w.bytes()
	for i := range good {
		flips := []byte{1 << (i % 8)}
		if i%200 == 0 {
			flips = nil
			for flip := 1; flip < 256; flip++ {
				flips = append(flips, byte(flip))
			}
		}
		for _, flip := range flips {
			bad := slices.Clone(good)
			bad[i] ^= flip
			if _, err := verify(bad); err == nil {
				t.Fatalf("byte %d of %q may become %q", i, good[i], bad[i])
			}
		}
	}
}

func TestVerifyFindsMovedLines(t *testing.T) {
	lines := bytes.SplitAfter(goodLedger(t).bytes(), []byte("\n"))
	lines = lines[:len(lines)-1]
	refuse := func(what string, line int, changed [][]byte) {
		t.Helper()
		_, err := verify(bytes.Join(changed, nil))
		var at *LineError
		switch {
		case errors.As(err, &at) && line > 0 && at.Line != line:
			t.Errorf("%s: found in line %d, want %d: %v", what, at.Line, line, err)
		case err == nil:
			t.Errorf("%s: not found", what)
		}
	}
	for i := range lines {
		refuse(fmt.Sprintf("line %d removed", i+1), 0, slices.Delete(slices.Clone(lines), i, i+1))
		refuse(fmt.Sprintf("line %d repeated", i+1), i+2, slices.Insert(slices.Clone(lines), i+1, lines[i]))
		for j := range i {
			swapped := slices.Clone(lines)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			refuse(fmt.Sprintf("lines %d and %d swapped", j+1, i+1), j+1, swapped)
		}
	}
	whole := bytes.Join(lines, nil)
	for end := 0; end < len(whole); end += 5 {
		if end == len(lines[0]) {
			continue // a dataset without runs is also a valid ledger; the certificate's head shows the difference
		}
		if _, err := verify(whole[:end]); err == nil {
			t.Fatalf("cut off at byte %d: not found", end)
		}
	}
}

func TestVerifyFindsAnyEdit(t *testing.T) {
	good := goodLedger(t).bytes()
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(good)-1).Draw(t, "at")
		cut := rapid.IntRange(0, min(40, len(good)-at)).Draw(t, "cut")
		insert := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "insert")
		bad := slices.Concat(good[:at], insert, good[at+cut:])
		if bytes.Equal(bad, good) {
			t.Skip("nothing changed")
		}
		if _, err := verify(bad); err == nil {
			t.Fatal("not found")
		}
	})
}

// Ledgers with valid hashes that describe something that must not happen.
func TestVerifyFindsWrongHistories(t *testing.T) {
	budget := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	for _, c := range []struct {
		name, message string
		line          int
		write         func(w *writer)
	}{
		{"two datasets opened", "only one of that type", 2, func(w *writer) {
			w.add(Entry{Type: EntryOpen, Opening: Opening{Budget: &budget, Unit: "record", Neighbouring: "x"}})
		}},
		{"a foreign dataset", "belongs to dataset", 2, func(w *writer) {
			w.add(Entry{Type: EntryRun, Dataset: "adult", Run: "one",
				Opening: Opening{Budget: &budget, Plan: unlimited(), Facts: facts}})
		}},
		{"charged before it was opened", "never opened", 2, func(w *writer) {
			w.deltas["one"] = 1e-5
			w.release("one", 0, labels)
		}},
		{"closed before it was opened", "never opened", 2, func(w *writer) {
			w.deltas["one"] = 1e-5
			w.close("one")
		}},
		{"opened twice", "already opened", 3, func(w *writer) {
			w.open("one", budget)
			w.open("one", budget)
		}},
		{"closed twice", "already closed", 4, func(w *writer) {
			w.open("one", budget)
			w.close("one")
			w.close("one")
		}},
		{"charged after it was closed", "already closed", 5, func(w *writer) {
			w.open("one", budget)
			w.release("one", 0, labels)
			w.close("one")
			w.release("one", 1, labels)
		}},
		{"a round twice", "already released", 4, func(w *writer) {
			w.open("one", budget)
			w.release("one", 3, labels)
			w.release("one", 3, labels)
		}},
		{"past the run's budget", `budget of run "one"`, 3, func(w *writer) {
			w.open("one", budget)
			w.release("one", 0, labels.Times(1<<20))
		}},
		{"past the dataset's budget", `budget of dataset "flchain"`, 5, func(w *writer) {
			w.open("one", privacy.Budget{Epsilon: 2, Delta: 1e-5})
			w.release("one", 0, dear)
			w.open("two", privacy.Budget{Epsilon: 2, Delta: 1e-5})
			w.release("two", 0, dear)
		}},
		{"epsilon spent too low", "epsilon_spent", 3, func(w *writer) {
			w.open("one", budget)
			e := releaseOf(unlimited(), 0, labels)
			e.Run, e.EpsilonSpent = "one", 0.1
			w.add(e)
		}},
		{"epsilon spent wrong at the end", "epsilon_spent", 4, func(w *writer) {
			w.open("one", budget)
			w.release("one", 0, labels)
			w.add(Entry{Type: EntryClose, Run: "one", Charge: Charge{EpsilonSpent: 1e-3}})
		}},
		{"a deposed leader", "deposed", 3, func(w *writer) {
			w.open("one", budget)
			w.add(Entry{Type: EntryClose, Run: "one", Fence: 6})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
			c.write(w)
			_, err := verify(w.bytes())
			var at *LineError
			if !errors.As(err, &at) || at.Line != c.line || !strings.Contains(err.Error(), c.message) {
				t.Errorf("error is %v, want %q in line %d", err, c.message, c.line)
			}
		})
	}
	if _, err := verify(nil); err == nil {
		t.Error("an empty ledger is believed")
	}
	if _, err := verify(bytes.Repeat([]byte("x"), 2*maxLine)); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("an endless line: error is %v", err)
	}
}

// A run of sums of gradients is verified like one of votes.
func TestVerifyASumsLedger(t *testing.T) {
	w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
	w.open("one", privacy.Budget{Epsilon: 1, Delta: 1e-5})
	w.release("one", 0, shares)
	for round := range uint64(3) {
		round++
		e := releaseOf(unlimited(), round, summed)
		e.Entries = 640
		w.pay("one", e)
	}
	w.close("one")
	for name, check := range map[string]func([]byte) (Verification, error){"verify": verify, "audit": verifyStrict} {
		v, err := check(w.bytes())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		run := v.Runs["one"]
		if !run.Closed || run.Releases != 4 || run.Queries != 4 || run.Answered != 4 {
			t.Errorf("%s: run %+v", name, run)
		}
		closeTo(t, name, run.Price.Epsilon, mustAccount(t, w.spent["one"], 1e-5).Epsilon, 1e-12)
	}
	// If the entry has less noise than was charged, its figure is wrong.
	for i := range w.entries {
		if len(w.entries[i].Events) == 1 && w.entries[i].Events[0].Kind == privacy.Gaussian {
			w.entries[i].Events = []privacy.Event{{Kind: privacy.Gaussian, Sigma: 10, Sensitivity: 1, Count: 1}}
			testkit.Must(t, w.entries[i].Seal(&w.entries[i-1]))
			w.entries = w.entries[:i+1]
			break
		}
	}
	if _, err := verify(w.bytes()); err == nil || errors.Is(err, ErrUnclosed) {
		t.Errorf("less noise than the figure is of: %v", err)
	}
}

// Releases outside their run's plan are refused, also if their hashes and figures are consistent.
func TestVerifyHoldsReleasesToThePlan(t *testing.T) {
	budget := privacy.Budget{Epsilon: 2, Delta: 1e-5}
	at := func(e *Entry, place int) { e.Planned, e.Kind = &place, unlimited()[place].Kind }
	confidentPlace, shares2 := 2, shares.Times(2)
	for _, c := range []struct {
		name, message string // an empty message means a valid ledger
		event         privacy.Event
		change        func(e *Entry)
	}{
		{"votes", "", labels, nil},
		{"lnmax", "", lnmax, nil},
		{"confident", "", confident, nil},
		{"none answered", "", confident, func(e *Entry) { e.Answered, e.Events[0].Answered = 0, 0 }},
		{"a sum", "", summed, func(e *Entry) { e.Entries = 1 << 17 }},
		{"an embedding", "", embedded, func(e *Entry) { e.Entries = 300 }},
		{"a selection", "", selected, nil},
		{"coefficients", "", fitted, func(e *Entry) { e.Entries = 12 }},
		{"pure coefficients", "", pureFit, func(e *Entry) { e.Entries = 12 }},
		{"a sample", "", sampled(0.02, 20, 1), nil},
		{"counts twice in one release", "", shares2, nil},
		{"an answer missing", "do not match", labels, func(e *Entry) { e.Queries = 31; e.Answered = 31 }},
		{"an answer too many", "do not match", confident, func(e *Entry) { e.Answered = 31 }},
		{"an answer missing alone", "answers all of them", labels, func(e *Entry) { e.Answered = 31 }},
		{"an unpaid query", "do not match", labels, func(e *Entry) { e.Queries, e.Answered = 33, 33 }},
		{"no query", "queries must be at least 1", labels, func(e *Entry) { e.Queries, e.Answered = 0, 0 }},
		{"another kind's name", "do not match", labels, func(e *Entry) { e.Kind = "gradient-votes" }},
		{"another entry", "do not match", labels, func(e *Entry) { at(e, 3) }},
		{"confident votes as votes", "answers all of them", confident, func(e *Entry) { at(e, 1) }},
		{"votes as confident ones", "do not match", labels, func(e *Entry) { at(e, confidentPlace) }},
		{"votes as class counts", "do not match", labels, func(e *Entry) { at(e, 0) }},
		{"class counts as votes", "do not match", shares, func(e *Entry) { at(e, 1) }},
		{"a sum as an embedding", "do not match", summed, func(e *Entry) { at(e, 5) }},
		{"an entry that the plan has not", "no such entry", labels, func(e *Entry) { place := 11; e.Planned = &place }},
		{"a negative place", "no such entry", labels, func(e *Entry) { place := -1; e.Planned = &place }},
		{"less noise", "do not match", labels, func(e *Entry) { e.Events[0].Sigma = 149 }},
		{"more noise", "do not match", labels, func(e *Entry) { e.Events[0].Sigma = 151 }},
		{"two events", "do not match", labels, func(e *Entry) { e.Events = append(e.Events, summed) }},
		{"a sum twice", "do not match", summed, func(e *Entry) { e.Events[0].Count = 2 }},
		{"as many sums as numbers", "do not match", summed, func(e *Entry) { e.Events[0].Count, e.Entries = 32, 32 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
			w.open("one", budget)
			w.release("one", 0, shares)
			e := releaseOf(unlimited(), 1, c.event)
			if c.change != nil {
				c.change(&e)
			}
			w.pay("one", e)
			w.close("one")
			for check, of := range map[string]func([]byte) (Verification, error){"verify": verify,
				"strict": verifyStrict} {
				_, err := of(w.bytes())
				var line *LineError
				if c.message == "" && err != nil || c.message != "" &&
					(!errors.As(err, &line) || line.Line != 4 || !strings.Contains(err.Error(), c.message)) {
					t.Errorf("%s: error is %v, want %q in line 4", check, err, c.message)
				}
			}
		})
	}
}

// Ledgers with valid hashes, budgets and plans that no aggregator writes.
func TestStrictFindsWhatNoAggregatorWrites(t *testing.T) {
	budget := privacy.Budget{Epsilon: 1, Delta: 1e-5}
	for _, c := range []struct {
		name, message string // an empty message means a valid ledger
		line          int
		write         func(w *writer)
	}{
		{"as it is written", "", 0, func(w *writer) { w.release("one", 0, shares); w.release("one", 1, labels) }},
		{"a run that may spend more than its dataset", "an aggregator does not open such a run", 3, func(w *writer) {
			w.open("big", privacy.Budget{Epsilon: 4, Delta: 1e-5})
			w.close("big")
		}},
		{"a round skipped", "round 2 of run \"one\" follows 1 rounds", 4, func(w *writer) {
			w.release("one", 0, shares)
			w.release("one", 2, labels)
		}},
		{"a first round that is not 0", "round 1 of run \"one\" follows 0 rounds", 3, func(w *writer) {
			w.release("one", 1, shares)
		}},
		{"a huge round", "follows 1 rounds", 4, func(w *writer) {
			w.release("one", 0, shares)
			w.release("one", 1<<64-1, labels)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(t, privacy.Budget{Epsilon: 3, Delta: 1e-5})
			w.open("one", budget)
			c.write(w)
			w.close("one")
			if _, err := verify(w.bytes()); err != nil {
				t.Fatalf("hashes or budgets are wrong: %v", err)
			}
			_, err := verifyStrict(w.bytes())
			var at *LineError
			if c.message == "" && err != nil || c.message != "" &&
				(!errors.As(err, &at) || at.Line != c.line || !strings.Contains(err.Error(), c.message)) {
				t.Errorf("error is %v, want %q in line %d", err, c.message, c.line)
			}
		})
	}
	w := &writer{t: t}
	w.add(Entry{Type: EntryOpen, Opening: Opening{Budget: &budget, Unit: "record", Neighbouring: "everybody"}})
	if _, err := verifyStrict(w.bytes()); err == nil || !strings.Contains(err.Error(), `neighbouring is "everybody"`) {
		t.Errorf("an unknown neighbouring: error is %v", err)
	}
}

func TestSeal(t *testing.T) {
	w := goodLedger(t)
	first := w.entries[0]
	if first.Seq != 1 || first.Previous != "" || len(first.Hash) != 64 {
		t.Errorf("first entry is %+v", first)
	}
	// The form is part of the format: auditors recompute it with other programs.
	line, err := first.Canonical()
	testkit.Must(t, err)
	want := `{"seq":1,"day":"2026-01-02","type":"open","dataset":"flchain",` +
		`"budget":{"epsilon":3,"delta":0.00001},` +
		`"unit":"record","neighbouring":"add-or-remove-one-unit","epsilon_spent":0,"fence":7,"previous":"",` +
		`"hash":"` + first.Hash + `"}`
	if string(line) != want {
		t.Errorf("canonical form is\n%s\nwant\n%s", line, want)
	}

	release := releaseOf(unlimited(), 0, labels)
	release.Dataset, release.Run, release.EpsilonSpent = "d", "r", 0.1
	good := release
	testkit.Must(t, good.Seal(&first))
	for name, change := range map[string]func(e *Entry){
		"unknown type":          func(e *Entry) { e.Type = "grant" },
		"day of a release":      func(e *Entry) { e.Day = "2026-01-02" },
		"time":                  func(e *Entry) { e.Day = "2026-01-02T03:04:05Z" },
		"no dataset":            func(e *Entry) { e.Dataset = "" },
		"no run":                func(e *Entry) { e.Run = "" },
		"no round":              func(e *Entry) { e.Round = nil },
		"no kind":               func(e *Entry) { e.Kind = "" },
		"no entry of the plan":  func(e *Entry) { e.Planned = nil },
		"a negative length":     func(e *Entry) { e.Entries = -1 },
		"no events":             func(e *Entry) { e.Events = nil },
		"a budget":              func(e *Entry) { e.Budget = &privacy.Budget{Epsilon: 1, Delta: 1e-5} },
		"a unit":                func(e *Entry) { e.Unit = "record" },
		"an invalid event":      func(e *Entry) { e.Events = []privacy.Event{{Kind: privacy.GNMax, Count: 1}} },
		"more answers":          func(e *Entry) { e.Answered = 33 },
		"negative queries":      func(e *Entry) { e.Queries, e.Answered = -1, -1 },
		"no hash":               func(e *Entry) { e.ReleaseSHA256 = "" },
		"short hash":            func(e *Entry) { e.ReleaseSHA256 = "ab" },
		"upper-case hash":       func(e *Entry) { e.ReleaseSHA256 = strings.Repeat("AB", 32) },
		"negative epsilon":      func(e *Entry) { e.EpsilonSpent = -1 },
		"negative fence":        func(e *Entry) { e.Fence = -1 },
		"a name that is broken": func(e *Entry) { e.Run = "r\xff" },
	} {
		bad := release
		change(&bad)
		if err := bad.Seal(&first); err == nil {
			t.Errorf("%s: was sealed", name)
		} else if bad.Hash != "" || bad.Seq != 0 {
			t.Errorf("%s: the refused entry was changed", name)
		}
	}
}

func FuzzVerify(f *testing.F) {
	w := goodLedger(f)
	good := w.bytes()
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("{}\n"))
	f.Add([]byte("{\"seq\":1,\"type\":\"open\"}\n\n"))
	f.Add([]byte("null\n"))
	f.Fuzz(func(t *testing.T, ledger []byte) {
		v, err := verify(ledger)
		if err != nil && !errors.Is(err, ErrUnclosed) {
			return
		}
		// An accepted ledger has one form only, and its runs stay within their budgets.
		var out bytes.Buffer
		for _, line := range bytes.Split(bytes.TrimSuffix(ledger, []byte("\n")), []byte("\n")) {
			e, err := parseEntry(line)
			testkit.Must(t, err)
			canonical, err := e.Canonical()
			testkit.Must(t, err)
			out.Write(append(canonical, '\n'))
		}
		if !bytes.Equal(out.Bytes(), ledger) {
			t.Fatal("a ledger was believed that is not in canonical form")
		}
		for name, run := range v.Runs {
			if run.Price.Epsilon > run.Budget.Epsilon*(1+1e-12) {
				t.Fatalf("run %s is over its budget", name)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	w := newWriter(b, privacy.Budget{Epsilon: 10, Delta: 1e-5})
	w.open("one", privacy.Budget{Epsilon: 5, Delta: 1e-5})
	w.release("one", 1000, shares)
	for round := range uint64(100) {
		w.release("one", round, labels)
	}
	w.close("one")
	ledger := w.bytes()
	for b.Loop() {
		if _, err := verify(ledger); err != nil {
			b.Fatal(err)
		}
	}
}
