package node

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// FuzzMasked feeds a member of a masked run what might come down its stream: a message of its own, and the same
// bytes as the attempt of a round. Whatever it is, the node does not panic, and says no more than it may: an answer of
// the right length, a key of its own, a tag, no signature of a ledger that it never saw; and never a seed, for nobody
// else has agreed to anything.
func FuzzMasked(f *testing.F) {
	h := newHostile(f, 2, 1, "east", "north")
	const at = "north"
	r := embeddingRound("r", 0)
	good := h.attempt(h.keys...)
	add := func(m proto.Message) { f.Add(testkit.Value(proto.Marshal(m))) }
	first := messagesOf(f, r, h.terms, 1)[0]
	first.Masked = good
	many := &conclavev1.MaskedRound{Members: make([]*conclavev1.RunKey, masking.MaxMembers+1)}
	for i := range many.Members {
		many.Members[i] = &conclavev1.RunKey{}
	}
	for _, m := range []proto.Message{
		good, many, &conclavev1.MaskedRound{Fence: 1 << 63, Counter: 1 << 63, Members: h.keys}, first,
		&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Survivors{
			Survivors: &conclavev1.Survivors{Run: "r", Sites: h.sites}}},
		&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Agreement{
			Agreement: &conclavev1.Agreement{Run: "r", Tags: [][]byte{nil, []byte("x")}}}},
		&conclavev1.WorkResponse{Terms: h.terms, Message: &conclavev1.WorkResponse_Permit{Permit: permitFor(f, r)}},
		&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Withdraw{
			Withdraw: &conclavev1.Withdraw{Run: "r", Over: true}}},
		&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Sign{Sign: &conclavev1.LedgerHead{Seq: 1}}},
	} {
		add(m)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h.t = t
		if m := new(conclavev1.WorkResponse); proto.Unmarshal(raw, m) == nil && m.GetEntries() == nil &&
			m.GetWelcome() == nil {
			for _, said := range h.sayAll(at, m) {
				checkMasked(t, h.nodes[at], said)
			}
		}
		if m := new(conclavev1.MaskedRound); proto.Unmarshal(raw, m) == nil {
			messages := messagesOf(t, r, h.terms, 1)
			messages[0].Masked = m
			for _, said := range h.sayAll(at, messages...) {
				checkMasked(t, h.nodes[at], said)
			}
		}
	})
}

// checkMasked checks what a member says to anything.
func checkMasked(t *testing.T, n *Node, said *conclavev1.WorkRequest) {
	t.Helper()
	switch {
	case said.GetRefusal() != nil:
		if why := said.GetRefusal().GetReason(); why == "" || strings.Contains(why, n.cfg.State) {
			t.Fatalf("refusal %v", said)
		}
	case said.GetSum() != nil:
		if said.GetSum().GetRun() != "r" || len(said.GetSum().GetValues()) != 16 {
			t.Fatalf("%d numbers of run %q", len(said.GetSum().GetValues()), said.GetSum().GetRun())
		}
	case said.GetPermitted() != nil:
		if k := said.GetPermitted().GetKey(); k != nil && k.GetSite() != n.cfg.Site {
			t.Fatalf("a key of %q", k.GetSite())
		}
	case said.GetAgreed() != nil:
		if tags := said.GetAgreed().GetTags(); len(tags) != 1 || len(tags[0]) != 32 {
			t.Fatalf("agreed with %x", tags)
		}
	case said.GetSigned() != nil:
		checkNothingSigned(t, said.GetSigned())
	default:
		t.Fatalf("the node says %v", said)
	}
}
