package node

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// checkReply checks that a reply holds what the round asked for and no more: a
// vote per teacher and query, or a sum within its bound, or a refusal.
func checkReply(t *testing.T, n *Node, todo task, m *conclavev1.WorkRequest) {
	t.Helper()
	if proto.Size(m) > 4<<20 {
		t.Fatalf("a reply of %d bytes", proto.Size(m))
	}
	switch a := m.GetMessage().(type) {
	case *conclavev1.WorkRequest_Votes:
		v, asked := a.Votes, todo.question.round.GetVote()
		queries := len(asked.GetQueryClasses())
		if asked.GetGradient() != nil {
			queries *= int(asked.GetGradient().GetDirections())
		}
		if v.Run != todo.run || v.Round != todo.round || int(v.Teachers) != n.cfg.Teachers || int(v.Queries) != queries || queries == 0 {
			t.Fatalf("votes of %d teachers on %d queries of round %d of %q", v.Teachers, v.Queries, v.Round, v.Run)
		}
		for _, vote := range unpack(t, v.Packed, n.cfg.Teachers, queries, int(asked.GetAnswerClasses())) {
			if uint32(vote) >= asked.GetAnswerClasses() {
				t.Fatalf("a vote for class %d of %d", vote, asked.GetAnswerClasses())
			}
		}
	case *conclavev1.WorkRequest_Sum:
		if g := todo.question.round.GetSum().GetGradients(); g != nil {
			checkGradients(t, n, todo, g, a.Sum)
			return
		}
		if d := todo.question.round.GetSum().GetDiscriminator(); d != nil {
			checkDiscriminatorSum(t, n, todo, d, a.Sum)
			return
		}
		if e := todo.question.round.GetSum().GetEmbedding(); e != nil {
			checkEmbeddingSum(t, n, todo, e, a.Sum)
			return
		}
		if q := todo.question.round.GetSum().GetScores(); q != nil {
			checkScoreSum(t, n, todo, q, a.Sum)
			return
		}
		if q := todo.question.round.GetSum().GetLogistic(); q != nil {
			checkLogisticSum(t, n, todo, q, a.Sum)
			return
		}
		s, asked := a.Sum, todo.question.round.GetSum().GetClassCounts()
		total := int64(0)
		for _, v := range s.Values {
			if v < 0 {
				t.Fatalf("a sum of %d", v)
			}
			total += v
		}
		if s.Run != todo.run || s.Round != todo.round || len(s.Values) != int(asked.GetClasses()) || total > int64(asked.GetScale())*int64(len(n.units)) {
			t.Fatalf("sums %v of round %d of %q at scale %d", s.Values, s.Round, s.Run, asked.GetScale())
		}
	case *conclavev1.WorkRequest_Refusal:
		f := a.Refusal
		if f.Run != todo.run || f.Round != todo.round || f.Reason == "" || len(f.Reason) > 1000 || strings.Contains(f.Reason, n.cfg.State) {
			t.Fatalf("refusal %v of round %d of %q", f, todo.round, todo.run)
		}
	default:
		t.Fatalf("reply %v", m)
	}
}

// checkGradients checks that a sum of gradients has a number for each that was asked for
// and is no longer than the teachers' vectors can make it.
func checkGradients(t *testing.T, n *Node, todo task, asked *conclavev1.GradientSum, s *conclavev1.Sum) {
	t.Helper()
	each := n.features
	if k := asked.GetProjection().GetDirections(); k > 0 {
		each = int(k)
	}
	squares := 0.0
	for _, v := range s.Values {
		squares += float64(v) * float64(v)
	}
	if s.Run != todo.run || s.Round != todo.round || len(s.Values) != each*len(asked.GetQueryClasses()) || len(s.Values) == 0 {
		t.Fatalf("a sum of %d numbers of round %d of %q", len(s.Values), s.Round, s.Run)
	}
	if most := float64(n.cfg.Teachers) * float64(asked.GetBound()); math.Sqrt(squares) > most*(1+1e-9) {
		t.Fatalf("a sum of length %v by %d teachers with bound %d", math.Sqrt(squares), n.cfg.Teachers, asked.GetBound())
	}
}

// checkDiscriminatorSum checks that a sum of a discriminator's gradients has a number for
// each weight and is no longer than the units' vectors can make it.
func checkDiscriminatorSum(t *testing.T, n *Node, todo task, asked *conclavev1.DiscriminatorSum, s *conclavev1.Sum) {
	t.Helper()
	squares := 0.0
	for _, v := range s.Values {
		squares += float64(v) * float64(v)
	}
	if s.Run != todo.run || s.Round != todo.round || 4*len(s.Values) != len(asked.GetWeights()) || len(s.Values) == 0 {
		t.Fatalf("a sum of %d numbers of round %d of %q for %d bytes of weights", len(s.Values), s.Round, s.Run, len(asked.GetWeights()))
	}
	most := float64(len(n.units)) * float64(asked.GetBound())
	if asked.GetNothing() {
		most = 0
	}
	if math.Sqrt(squares) > most*(1+1e-9) {
		t.Fatalf("a sum of length %v by %d units with bound %d", math.Sqrt(squares), len(n.units), asked.GetBound())
	}
}

// FuzzWork feeds a node what might come down its stream: a message, and the
// same bytes as a round in parts. Whatever it is, the node does not panic and
// replies with no more than was asked.
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
	hidden := voteRound("h", 1)
	hidden.GetVote().Teacher.Model, hidden.GetVote().Teacher.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, 2
	add(hidden, 1000)
	add(gradientRound("g", 1), 1000)
	add(sumRound("s", 1, 0), 1000)
	add(freshRound("f", 1), 1000)
	projected := sumRound("p", 1, 0.5)
	projected.GetSum().GetGradients().Projection = &conclavev1.Projection{Directions: 2, Seed: 1}
	projected.GetSum().GetGradients().Teacher.Vote = coinVote
	add(projected, 1000)
	for _, change := range discriminators() {
		add(discriminatorRound("d", 1, 0.5, change), 1000)
	}
	for _, b := range badDiscriminators() {
		add(discriminatorRound("d", 1, 0.5, b.change), 1000)
	}
	small := partition.NewEncoder(mustSchema(f, smallSchema))
	add(embeddingOf(small, 2, 1<<16, nil), 1000)
	add(embeddingOf(small, 2, 1<<8, func(q *conclavev1.EmbeddingSum) { q.Nothing = true }), 20)
	for _, b := range badEmbeddings() {
		add(embeddingOf(small, 2, 1<<16, b.change), 1000)
	}
	add(scoreRound(1, 1<<16, 0.5, scorable()...), 1000)
	add(scoreRound(1, 1<<8, 3e37, scorable()...), 1000)
	for name, b := range badScores() {
		if r := scoreRound(1, 1<<16, 0.5, scorable()[:2]...); name != "too many" {
			b.change(r.GetSum().GetScores())
			add(r, 1000)
		}
	}
	add(logisticRound(1, 1, nil), 1000)
	add(logisticRound(1, 1e300, func(q *conclavev1.LogisticSum) { q.Bound = 1 }), 1000)
	for _, b := range badLogistics() {
		add(logisticRound(1, 1, b.change), 1000)
	}
	for _, s := range spoils() {
		r := voteRound("r", 1)
		s.change(r.GetVote())
		add(r, 50)
	}
	for _, m := range []*conclavev1.WorkResponse{
		{Message: &conclavev1.WorkResponse_Part{Part: partsOf(f, voteRound("r", 3), 1<<20)[0]}},
		{Message: &conclavev1.WorkResponse_Part{Part: partsOf(f, voteRound("r", 3), 200)[2]}},
		{Message: &conclavev1.WorkResponse_Withdraw{Withdraw: &conclavev1.Withdraw{Run: "r", Round: 1}}},
		{Message: &conclavev1.WorkResponse_Welcome{Welcome: &conclavev1.Welcome{Aggregator: "a"}}},
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
			for _, a := range []*conclavev1.TeacherSpec{round.GetVote().GetTeacher(), round.GetSum().GetGradients().GetTeacher()} {
				if a.GetSteps() > 100 && a.GetSteps() <= maxSteps {
					return // answered, but slowly
				}
			}
			for _, p := range cut(round, bytes.Clone(raw), max(1, int(size))) {
				messages = append(messages, &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: p}})
			}
		}
		in, parts := newInbox(), assembly{}
		for _, m := range messages {
			testkit.Must(t, n.dispatch(t.Context(), m, &parts, in))
			for todo, ok := in.take(); ok; todo, ok = in.take() {
				checkReply(t, n, todo, n.reply(todo))
			}
		}
	})
}
