package ledger

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// maxLine bounds one entry in bytes.
const maxLine = 1 << 20

// Verification is the result of verifying a ledger.
type Verification struct {
	Entries      int
	Head         string // hash of the last entry
	Dataset      string
	Budget       privacy.Budget // of the dataset, over all runs
	Unit         string
	Neighbouring string
	Events       []privacy.Event // of all runs, merged
	Price        privacy.Price   // of all runs, at the dataset's delta
	Runs         map[string]RunTotal
}

// RunTotal is a ledger's total of one run.
type RunTotal struct {
	Budget        privacy.Budget
	Plan          privacy.Plan
	Facts         Facts
	Opened, Ended string          // days of its entries; Ended is empty until it is closed
	Roster        []Site          // nil before its first question
	Manifest      string          // SHA-256 of its list of files, or empty
	GaveOut       string          // the student that gives them out: the run's own, or its worker
	Masked        *masking.Group  // the group that masked its sums, or nil
	PlanPrice     *privacy.Price  // of the whole plan, at the run's delta; nil unless the filter is pld
	Used          []int64         // uses of each entry of the plan
	Events        []privacy.Event // merged
	Price         privacy.Price   // at the run's delta
	Closed        bool
	Head          string // hash of its closing entry, empty until it is closed
	Asked
}

// Asked counts the questions of a run.
type Asked struct {
	Releases          int
	Queries, Answered int64 // of releases
	Abandoned         int   // abandoned questions, also in Events
}

// ErrUnclosed matches, with errors.Is, the error that a ledger ends while a run is open: the run is still in
// progress, or the end of the ledger was removed.
var ErrUnclosed = errors.New("a run is not closed")

// UnclosedError names the runs without a closing entry.
type UnclosedError struct{ Runs []string }

func (e *UnclosedError) Error() string {
	return fmt.Sprintf("the ledger ends before these runs are closed: %s; either they are still running, or the "+
		"ledger is incomplete: get it again from the aggregator",
		strings.Join(e.Runs, ", "))
}

func (e *UnclosedError) Is(target error) bool { return target == ErrUnclosed }

// LineError says which line of a ledger is wrong, counted from 1, and why.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("ledger line %d: %v", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Verify reads a ledger file (one canonical entry per line) without trusting it. It recomputes every hash, every
// run's epsilon after every release, and whether the filter would have admitted it under the budgets of run and
// dataset. The first problem is a [*LineError].
//
// A valid ledger that ends with an open run gives the whole verification and an [*UnclosedError]. A ledger does not
// show whether it continued after its last closed run: compare Head with the one in the release certificate.
func Verify(r io.Reader) (Verification, error) { return verifyLedger(r, false) }

func verifyLedger(r io.Reader, strict bool) (Verification, error) {
	lines := bufio.NewReader(r)
	a := verifier{strict: strict}
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if err == io.EOF {
			return a.finish()
		}
		if err == nil {
			err = a.line(line)
		}
		if err != nil {
			return a.result, &LineError{Line: n, Err: err}
		}
	}
}

// readLine returns the next line without its newline, or io.EOF if there is none.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("the line is longer than %d bytes; this is not a ledger", maxLine)
		case err == nil:
			return line[:len(line)-1], nil
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		case err == io.EOF:
			return nil, errors.New("the line is incomplete; the ledger was truncated")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
	}
}

// verifier checks entries one after the other.
type verifier struct {
	strict bool // see VerifyStrict
	last   Entry
	rounds map[string]map[uint64]bool // run -> rounds released
	result Verification
	// planPrice is the price of the plan of the dataset's only run at the dataset's delta, if the filter is pld.
	planPrice *privacy.Price
}

func (a *verifier) line(line []byte) error {
	e, err := parseEntry(line)
	if err != nil {
		return err
	}
	if err := a.chain(e); err != nil {
		return err
	}
	if err := e.validate(); err != nil {
		return err
	}
	if err := a.meaning(e); err != nil {
		return err
	}
	a.last = e
	a.result.Entries++
	a.result.Head = e.Hash
	return nil
}

// chain checks that the entry follows the last one and was not altered.
func (a *verifier) chain(e Entry) error {
	digest, err := e.digest()
	switch {
	case err != nil:
		return err
	case e.Hash != digest:
		return errors.New("the hash does not match the entry; it was altered")
	case e.Seq != a.last.Seq+1:
		return fmt.Errorf("entry %d follows entry %d; entries are missing, repeated or out of order", e.Seq, a.last.Seq)
	case e.Previous != a.last.Hash:
		return errors.New("the entry does not follow the previous entry; earlier entries were altered, removed or " +
			"reordered")
	case e.Fence < a.last.Fence:
		return fmt.Errorf("fence %d is below %d; a deposed leader wrote this entry", e.Fence, a.last.Fence)
	}
	return nil
}

// meaning checks the entry against earlier ones.
func (a *verifier) meaning(e Entry) error {
	if (e.Type == EntryOpen) != (a.result.Entries == 0) {
		return errors.New("a ledger must start with the entry that opens its dataset, and have only one of that type")
	}
	if e.Type == EntryOpen {
		if err := e.openedAsWritten(); a.strict && err != nil {
			return err
		}
		a.result.Dataset, a.result.Budget = e.Dataset, *e.Budget
		a.result.Unit, a.result.Neighbouring = e.Unit, e.Neighbouring
		a.result.Runs = make(map[string]RunTotal)
		a.rounds = make(map[string]map[uint64]bool)
		return nil
	}
	if e.Dataset != a.result.Dataset {
		return fmt.Errorf("the entry belongs to dataset %q, the ledger to %q", e.Dataset, a.result.Dataset)
	}
	run, opened := a.result.Runs[e.Run]
	if e.Type == EntryRun {
		if opened {
			return fmt.Errorf("run %q was already opened", e.Run)
		}
		return a.openRun(e)
	}
	switch {
	case !opened:
		return fmt.Errorf("run %q was never opened", e.Run)
	case run.Closed:
		return fmt.Errorf("run %q was already closed", e.Run)
	}
	switch {
	case e.Type == EntryRoster:
		err := a.fixRoster(&run, e)
		a.result.Runs[e.Run] = run
		return err
	case e.OfQuestion():
		if err := a.charge(&run, e); err != nil {
			return err
		}
	default:
		run.Closed, run.Head, run.Manifest, run.Ended = true, e.Hash, e.Manifest, e.Day
		run.GaveOut = cmp.Or(e.By, run.Facts.Student)
	}
	spent, err := run.spending().EpsilonSpent()
	if err != nil {
		return err
	}
	if math.Abs(e.EpsilonSpent-spent) > 1e-9*spent {
		return fmt.Errorf("epsilon_spent is %v, the releases so far come to %v", e.EpsilonSpent, spent)
	}
	a.result.Runs[e.Run] = run
	return nil
}

func (a *verifier) finish() (Verification, error) {
	if a.result.Entries == 0 {
		return a.result, &LineError{Line: 1, Err: errors.New("the ledger is empty; it must open its dataset")}
	}
	var err error
	if a.result.Price, err = accountWithin(a.planPrice, a.result.Events, a.result.Budget.Delta); err != nil {
		return a.result, err
	}
	var unclosed []string
	for name, run := range a.result.Runs {
		if run.Price, err = accountWithin(run.PlanPrice, run.Events, run.Budget.Delta); err != nil {
			return a.result, err
		}
		a.result.Runs[name] = run
		if !run.Closed {
			unclosed = append(unclosed, name)
		}
	}
	if len(unclosed) > 0 {
		slices.Sort(unclosed)
		return a.result, &UnclosedError{Runs: unclosed}
	}
	return a.result, nil
}
