package certificate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Errors with which Verify rejects a certificate. A broken ledger is reported by the errors of ledger.VerifyStrict.
var (
	ErrUnknownRun = errors.New("the ledger does not contain the certificate's run")
	ErrOpenRun    = errors.New("the ledger has not closed the certificate's run")
	ErrHead       = errors.New("the certificate's ledger_head is not an entry of the ledger after the end of its run")
	ErrBudget     = errors.New("the certificate's epsilon and delta are not the budget of the run in the ledger")
	ErrSpent      = errors.New("the certificate's epsilon_spent is not the sum of the ledger")
	ErrMechanisms = errors.New("the certificate's mechanisms are not the ledger's")
	ErrOverspent  = errors.New("the spending exceeds the guarantee")
	ErrScope      = errors.New("the certificate's unit, overlap or neighbouring is not the ledger's")
	ErrAccountant = errors.New("the certificate's accountant is not the one that gives the ledger's epsilon")
	ErrEarlier    = errors.New("the certificate's earlier runs are not those of the ledger")
	ErrFacts      = errors.New("the certificate and the ledger disagree about the run")
	ErrRoster     = errors.New("the certificate's roster is not the ledger's")
	ErrMasked     = errors.New("the certificate's masked is not the ledger's")
	ErrGuarantee  = errors.New("the certificate's guarantee is not one that a ledger proves")
)

// Stated are the fields of a certificate that no ledger can confirm. Its student signs them.
var Stated = []string{"rows", "manifest_sha256", "teachers_least", "created", "software", "columns_from_rows", "notes"}

// spentTolerance is relative: two machines may round the last digits differently.
const spentTolerance = 1e-9

// Verify recomputes everything that a certificate takes from the ledger: all hashes of the ledger, the head,
// the run's budget, unit, mechanisms and spent epsilon. A ledger with later runs on the same dataset still
// verifies it. Verify returns the first failure, as one of the errors above or one of ledger.VerifyStrict. It
// only checks that the fields in Stated have possible values.
func (c Certificate) Verify(lines io.Reader) error {
	raw, err := io.ReadAll(lines)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	_, err = c.Proven(raw)
	return err
}

// Proven verifies the certificate like Verify, against the text of a ledger. It returns the ledger's totals of the
// run.
func (c Certificate) Proven(raw []byte) (run ledger.RunTotal, err error) {
	if err := c.Validate(); err != nil {
		return run, err
	}
	// A later run on the same dataset may still be open, but not this one.
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw))
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		return run, fmt.Errorf("ledger: %w", err)
	}
	return verified.Runs[c.Run], c.Against(verified, raw)
}

// Against is Verify for a ledger that was verified strictly, with its text.
func (c Certificate) Against(verified ledger.Verification, raw []byte) error {
	total, err := covered(verified, c.Run)
	if err != nil {
		return err
	}
	if err := c.checkFacts(total); err != nil {
		return err
	}
	if err := findHead(raw, c); err != nil {
		return err
	}
	if c.Epsilon != total.Budget.Epsilon || c.Delta != total.Budget.Delta {
		return fmt.Errorf("%w: ledger (%v, %v), certificate (%v, %v)", ErrBudget,
			total.Budget.Epsilon, total.Budget.Delta, c.Epsilon, c.Delta)
	}
	if c.Unit != verified.Unit || c.Neighbouring != verified.Neighbouring {
		return fmt.Errorf("%w: ledger %q, %q, certificate %q, %q", ErrScope,
			verified.Unit, verified.Neighbouring, c.Unit, c.Neighbouring)
	}
	if of := verified.Budget; c.Overlap != of.Overlap {
		return fmt.Errorf("%w: overlap is %d in the ledger, and %d in the certificate", ErrScope,
			of.Sites(), c.Overlap)
	}
	// Events are charged at a cost that holds for any votes.
	if c.Guarantee != DataIndependent {
		return fmt.Errorf("%w: it proves %q, the certificate says %q", ErrGuarantee, DataIndependent, c.Guarantee)
	}
	ofLedger := Mechanisms(total.Events)
	if m, ok := firstMissing(ofLedger, c.Mechanisms); ok {
		return fmt.Errorf("%w: the ledger has %s, the certificate does not", ErrMechanisms, m)
	}
	if m, ok := firstMissing(c.Mechanisms, ofLedger); ok {
		return fmt.Errorf("%w: the certificate has %s, the ledger does not", ErrMechanisms, m)
	}
	if ofLedger := maskedOf(total.Masked); !c.Masked.equal(ofLedger) {
		return fmt.Errorf("%w: ledger %v, certificate %v", ErrMasked, ofLedger, c.Masked)
	}
	if spent := total.Price.Epsilon; math.Abs(spent-c.EpsilonSpent) > spentTolerance*math.Max(spent, c.EpsilonSpent) {
		return fmt.Errorf("%w: ledger %v, certificate %v", ErrSpent, spent, c.EpsilonSpent)
	}
	if c.Accountant != total.Price.Accountant {
		return fmt.Errorf("%w: ledger %q, certificate %q", ErrAccountant, total.Price.Accountant, c.Accountant)
	}
	return nil
}

// checkFacts compares the certificate's facts about its run with the run's entries.
func (c Certificate) checkFacts(total ledger.RunTotal) error {
	if !slices.Equal(c.Earlier, total.Facts.Earlier) {
		return fmt.Errorf("%w: ledger %q, certificate %q", ErrEarlier, total.Facts.Earlier, c.Earlier)
	}
	of := askedOf(total)
	for _, f := range []struct {
		name                string
		ledger, certificate any
	}{
		{"pipeline", total.Facts.Pipeline, c.Pipeline}, {"schema_sha256", total.Facts.SchemaSHA256, c.SchemaSHA256},
		{"student", of.Student, c.Student}, {"purpose", of.Purpose, c.Purpose},
		{"teachers", of.Teachers, c.Teachers}, {"votes", of.Votes, c.Votes},
	} {
		if f.ledger != f.certificate {
			return fmt.Errorf("%w: %s is %v in the ledger and %v in the certificate", ErrFacts, f.name, f.ledger,
				f.certificate)
		}
	}
	if !c.Study.Is(of.Study) {
		return fmt.Errorf("%w: study is %v in the ledger and %v in the certificate", ErrFacts, of.Study.Texts(),
			c.Study.Texts())
	}
	if !slices.Equal(c.Roster, total.Roster) {
		return fmt.Errorf("%w: ledger %v, certificate %v", ErrRoster, total.Roster, c.Roster)
	}
	return nil
}

// closedRun finds a run that has ended.
func closedRun(verified ledger.Verification, run string) (ledger.RunTotal, error) {
	total, ok := verified.Runs[run]
	if !ok {
		return total, fmt.Errorf("%w: %q", ErrUnknownRun, run)
	}
	if !total.Closed {
		return total, fmt.Errorf("%w: %q; the end of the ledger may be missing", ErrOpenRun, run)
	}
	return total, nil
}

// covered returns the totals that a certificate covers: those of a run that has ended or, with the runs that it
// continued, what all of them spent of their dataset's budget. The price then follows the rule of the dataset's
// filter, since the questions of a later run may depend on the answers of an earlier one.
func covered(verified ledger.Verification, run string) (ledger.RunTotal, error) {
	total, err := closedRun(verified, run)
	if err != nil || len(total.Facts.Earlier) == 0 {
		return total, err
	}
	for _, name := range verified.Before(run) {
		before, err := closedRun(verified, name)
		if err != nil {
			return total, err
		}
		total.Events = privacy.Merge(append(slices.Clone(total.Events), before.Events...))
		if !maskedOf(before.Masked).equal(maskedOf(total.Masked)) {
			total.Masked = nil // no statement about masks covers all of them
		}
	}
	total.Budget = verified.Budget
	filter := cmp.Or(verified.Budget.Filter, privacy.FilterGDP)
	epsilon, err := filter.Epsilon(total.Events, verified.Budget.Delta)
	if err != nil {
		return total, err
	}
	total.Price = privacy.Price{Epsilon: epsilon, Accountant: string(filter)}
	return total, nil
}

// findHead looks for the certificate's head in a verified ledger, among the entry that closed its run and later
// entries.
func findHead(raw []byte, c Certificate) error {
	closed := false
	last := ""
	for line := range bytes.Lines(raw) {
		var e ledger.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		closed = closed || e.Type == ledger.EntryClose && e.Run == c.Run
		if closed && e.Hash == c.LedgerHead {
			return nil
		}
		last = e.Hash
	}
	return fmt.Errorf("%w: the ledger's last entry is %s, the certificate's %s", ErrHead, last, c.LedgerHead)
}

// firstMissing returns the first of want that is not in got, counting repeats.
func firstMissing(want, got []Mechanism) (Mechanism, bool) {
	left := slices.Clone(got)
	for _, m := range want {
		at := slices.IndexFunc(left, func(o Mechanism) bool {
			return o.Kind == m.Kind && o.Count == m.Count && maps.Equal(o.Parameters, m.Parameters)
		})
		if at < 0 {
			return m, true
		}
		left = slices.Delete(left, at, at+1)
	}
	return Mechanism{}, false
}
