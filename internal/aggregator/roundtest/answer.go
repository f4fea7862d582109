package roundtest

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type Answer func(*conclavev1.Round) []*conclavev1.WorkRequest

// Votes answers every round; vote returns each teacher's vote.
func Votes(teachers uint32, vote func(teacher, query int) int) Answer {
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		queries := int(r.GetVotes().GetQueries())
		return []*conclavev1.WorkRequest{{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
			Run: r.GetRun(), Round: r.GetNumber(), Teachers: teachers, Queries: uint32(queries),
			Packed: PackVotes(int(teachers), queries, 2, vote),
		}}}}
	}
}

// Permitted is the answer of a node whose site permits a run.
func Permitted(p *conclavev1.Permit) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Permitted{Permitted: &conclavev1.Permitted{
		Run: p.GetRun(), Round: p.GetRound(),
	}}}
}

func Alternating(_, query int) int { return query % 2 }

func Silent(*conclavev1.Round) []*conclavev1.WorkRequest { return nil }

// WantStatus checks the code of an error, and that its message contains these words.
func WantStatus(t testing.TB, err error, code codes.Code, names ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("got %v, want %v", err, code)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %q", err, name)
		}
	}
}

// Sums answers every round with the same values.
func Sums(values []int64) Answer {
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{
			Addressed(
				&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: values}}},
				r,
			),
		}
	}
}

// Refusing refuses every round.
func Refusing(reason string) Answer {
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return []*conclavev1.WorkRequest{Addressed(&conclavev1.WorkRequest{
			Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Reason: reason}}}, r)}
	}
}

// Addressed gives an answer the run and number of a round.
func Addressed(m *conclavev1.WorkRequest, r *conclavev1.Round) *conclavev1.WorkRequest {
	m = proto.Clone(m).(*conclavev1.WorkRequest)
	switch a := m.GetMessage().(type) {
	case *conclavev1.WorkRequest_Votes:
		a.Votes.Run, a.Votes.Round = r.GetRun(), r.GetNumber()
	case *conclavev1.WorkRequest_Sum:
		a.Sum.Run, a.Sum.Round = r.GetRun(), r.GetNumber()
	case *conclavev1.WorkRequest_Refusal:
		a.Refusal.Run, a.Refusal.Round = r.GetRun(), r.GetNumber()
	}
	return m
}

// PackVotes writes votes bit by bit, as teacher.proto describes them, without any code under test.
func PackVotes(teachers, queries, classes int, vote func(teacher, query int) int) []byte {
	bits := 1
	for 1<<bits < classes {
		bits *= 2
	}
	row := (queries*bits + 7) / 8
	packed := make([]byte, teachers*row)
	for t := range teachers {
		for q := range queries {
			for b := range bits {
				at := q*bits + b
				packed[t*row+at/8] |= byte(vote(t, q)>>b&1) << (at % 8)
			}
		}
	}
	return packed
}
