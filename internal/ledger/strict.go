package ledger

import (
	"io"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// VerifyStrict is [Verify] for a ledger from somebody else. It also refuses what no aggregator writes, even if hashes
// and budgets are valid: unknown words, and rounds that do not count up from 0.
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
