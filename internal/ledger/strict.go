package ledger

import (
	"io"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// VerifyStrict is [Verify] for a ledger from other hands. It refuses, in
// addition, what no aggregator writes even where hashes and budgets hold: words
// it does not use, and rounds that do not count from 0 in order.
func VerifyStrict(r io.Reader) (Verification, error) { return verifyLedger(r, true) }

// neighbourings are the relations that datasets are opened with.
var neighbourings = []string{"add-or-remove-one-unit"}

func (e Entry) openedAsWritten() error {
	if slices.Contains(neighbourings, e.Neighbouring) {
		return nil
	}
	return privacy.FieldErrorf("neighbouring",
		"is %q; an aggregator writes %s", e.Neighbouring, strings.Join(neighbourings, " or "))
}
