package node

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// On request a node signs the newest entry that it received, and no other.
func TestANodeSignsTheLedgersEnd(t *testing.T) {
	f := newFakeAggregator(t)
	c := f.config(2)
	all := chain(t, 7, "a")
	f.setLedger(all[:3])
	run(t, start(t, c, questiontest.SmallTable(t, 40, 1)))
	j := f.next()
	sign := func(e ledger.Entry, then ...ledger.Entry) *conclavev1.SignedHead {
		t.Helper()
		hash, err := hex.DecodeString(e.Hash)
		testkit.Must(t, err)
		j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Sign{
			Sign: &conclavev1.LedgerHead{Seq: e.Seq, Hash: hash},
		}})
		if len(then) > 0 {
			j.entries(then)
		}
		return j.reply().GetSigned()
	}
	check := func(e ledger.Entry, m *conclavev1.SignedHead) {
		t.Helper()
		by, err := attest.FromWire(m.GetSignature()).Check(attest.Head(c.Dataset, e.Seq, e.Hash))
		testkit.Must(t, err)
		if by.Identity != (certs.Identity{Role: certs.RoleNode, Name: c.Site}) {
			t.Errorf("signed by %v", by.Identity)
		}
	}
	check(all[2], sign(all[2]))
	check(all[2], sign(all[2], all[3:6]...)) // entries after the request do not count
	check(all[5], sign(all[5]))
	other := all[5]
	other.Hash = strings.Repeat("ab", 32)
	for name, e := range map[string]ledger.Entry{"an older one": all[4], "one to come": all[6], "another": other} {
		if m := sign(e); m == nil || m.GetSignature() != nil || m.GetHead().GetSeq() != e.Seq {
			t.Errorf("%s: %v", name, m)
		}
	}
}
