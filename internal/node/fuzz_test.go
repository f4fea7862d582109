package node

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// checkReply checks that a reply has only what the round asked for: an answer of the question's shape, or a short
// refusal.
func checkReply(t *testing.T, n *Node, todo task, m *conclavev1.WorkRequest) {
	t.Helper()
	if proto.Size(m) > 4<<20 {
		t.Fatalf("a reply of %d bytes", proto.Size(m))
	}
	if f := m.GetRefusal(); f != nil {
		if f.Run != todo.run || f.Round != todo.round || f.Reason == "" || len(f.Reason) > 1000 ||
			strings.Contains(f.Reason, n.cfg.State) {
			t.Fatalf("refusal %v of round %d of %q", f, todo.round, todo.run)
		}
		return
	}
	if s := m.GetSigned(); s != nil {
		checkNothingSigned(t, s)
		return
	}
	checked, err := check(n.kinds, n.site.Public, todo.question.round, todo.spec.GetCoinVotes())
	testkit.Must(t, err)
	a := questiontest.Answer{Shape: checked.Shape}
	switch {
	case m.GetVotes() != nil:
		v := m.GetVotes()
		a.Votes = v.Packed
		if v.Run != todo.run || v.Round != todo.round || int(v.Teachers) != n.cfg.Teachers ||
			int(v.Queries) != a.Shape.Votes.Queries {
			t.Fatalf("votes of %d teachers on %d queries of round %d of %q", v.Teachers, v.Queries, v.Round, v.Run)
		}
	case m.GetSum() != nil:
		a.Sum = m.GetSum().Values
		if m.GetSum().Run != todo.run || m.GetSum().Round != todo.round || a.Shape.Sum == nil {
			t.Fatalf("a sum of round %d of %q", m.GetSum().Round, m.GetSum().Run)
		}
	default:
		t.Fatalf("reply %v", m)
	}
	questiontest.CheckAnswer(t, n.site, a)
}

// checkNothingSigned checks that a node without a ledger never signs a head.
func checkNothingSigned(t *testing.T, s *conclavev1.SignedHead) {
	t.Helper()
	if s.GetSignature() != nil {
		t.Fatalf("signed %v", s)
	}
}

// FuzzWork sends a node anything that might come down its stream: a message, and the same bytes as a round in parts.
// The node must not panic, and must reply only with what was asked.
func FuzzWork(f *testing.F) {
	add := func(m proto.Message, size uint16) {
		raw, err := proto.Marshal(m)
		testkit.Must(f, err)
		f.Add(raw, size)
	}
	add(voteRound("r", 1), 100)
	add(voteRound("r", 2), 1)
	add(countRound("r", 0, 2, 1<<16), 3)
	add(countRound("r", 0, 1<<31, 1<<63), 3)
	for _, r := range append(roundsOfAllKinds(), wrongRounds()...) {
		add(r, 1000)
	}
	for _, m := range []*conclavev1.WorkResponse{
		{Message: &conclavev1.WorkResponse_Part{Part: partsOf(f, voteRound("r", 3), 1<<20)[0]}},
		{Message: &conclavev1.WorkResponse_Part{Part: partsOf(f, voteRound("r", 3), 200)[2]}},
		{Message: &conclavev1.WorkResponse_Withdraw{Withdraw: &conclavev1.Withdraw{Run: "r", Round: 1}}},
		{Message: &conclavev1.WorkResponse_Welcome{Welcome: &conclavev1.Welcome{Aggregator: "a"}}},
		{Message: &conclavev1.WorkResponse_Sign{Sign: &conclavev1.LedgerHead{}}},
		{Message: &conclavev1.WorkResponse_Sign{Sign: &conclavev1.LedgerHead{Seq: 2, Hash: make([]byte, 32)}}},
		{},
	} {
		add(m, 0)
	}
	n := smallNode(f, 3)
	f.Fuzz(func(t *testing.T, raw []byte, size uint16) {
		var messages []*conclavev1.WorkResponse
		if m := new(conclavev1.WorkResponse); proto.Unmarshal(raw, m) == nil {
			messages = append(messages, m)
		}
		round := new(conclavev1.Round)
		if proto.Unmarshal(raw, round) == nil && len(raw) > 0 {
			if q := new(conclavev1.VoteQuestion); proto.Unmarshal(round.GetParams(), q) == nil &&
				q.GetTeacher().GetSteps() > 100 && q.GetTeacher().GetSteps() <= 10_000 {
				return // answered, but slowly; sums of gradients have their teachers in the same field
			}
			for _, p := range cut(round, bytes.Clone(raw), max(1, int(size))) {
				messages = append(messages, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: p}})
			}
		}
		in, parts := newInbox(), assembly{}
		for _, m := range messages {
			testkit.Must(t, n.dispatch(m, &parts, in))
			for todo, ok := in.take(); ok; todo, ok = in.take() {
				checkReply(t, n, todo, n.reply(todo))
			}
		}
	})
}
