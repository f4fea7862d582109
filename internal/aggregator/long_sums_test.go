package aggregator

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/parts"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// inParts answers as a node whose values are all equal, and too many for one message.
func inParts(n int, value int64, change func([]*conclavev1.WorkRequest) []*conclavev1.WorkRequest) roundtest.Answer {
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		messages := parts.OfSum(roundtest.Sums(slices.Repeat([]int64{value}, n))(r)[0])
		if change != nil {
			messages = change(messages)
		}
		return messages
	}
}

// longSum takes four parts from a node and more than one in the store.
const longSum = 1 << 19

// Half a million numbers are sent and stored in parts. They are charged once, and a restarted server returns the
// same.
func TestLongSums(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
		roundtest.EmbeddingOf(2)(s)
		s.Quorum = 1 // a busy machine may exceed the deadline
	})
	north := c.node(t, hello(d, "north", "a", 4), inParts(longSum, 5<<16, nil))
	c.node(t, hello(d, "south", "a", 4), inParts(longSum, 7<<16, nil))
	c.awaitTeachers(t, d, 8)
	round := roundtest.EmbeddingRound(spec.Name, 0, longSum, nil)
	r := student.mustAsk(t, round)
	if len(r.GetSum().GetValues()) != longSum || r.GetTeachers() != 8 {
		t.Fatalf("released %d numbers by %d teachers", len(r.GetSum().GetValues()), r.GetTeachers())
	}
	// The mean stays within 7 of its standard deviations, except with a probability of 3e-12.
	mean := 0.0
	for _, v := range r.GetSum().GetValues() {
		mean += float64(v) / (1 << 16) / longSum
	}
	if math.Abs(mean-12) > 7*2/math.Sqrt(longSum) {
		t.Errorf("the mean is %v, want 12", mean)
	}
	for _, restarted := range []bool{false, true} {
		if entries := student.ledger(t, spec.Name); len(entries) != 1 || entries[0].Entries != longSum {
			t.Errorf("the ledger has %v", entries)
		}
		if again := student.mustAsk(t, round); !proto.Equal(again, r) {
			t.Error("asked again it has another release")
		}
		if len(north.rounds) != 1 {
			t.Errorf("a node saw %d rounds", len(north.rounds))
		}
		if restarted {
			continue
		}
		testkit.Must(t, c.stop())
		c.start(Options{})
		student = c.student(t)
	}
}

// Parts that do not belong to a requested answer end the stream and are not counted. Package parts tests other faults
// of parts.
func TestPartsThatCannotBeAreRejected(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	const n = 3 << 17
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.EmbeddingOf(2))
	bad := c.node(t, hello(d, "north", "bad", 4),
		inParts(n, 1, func(m []*conclavev1.WorkRequest) []*conclavev1.WorkRequest {
			m[1], m[2] = m[2], m[1]
			return m
		}))
	c.node(t, hello(d, "south", "good", 4), inParts(n, 3<<16, nil))
	c.awaitTeachers(t, d, 8)
	r := student.mustAsk(t, roundtest.EmbeddingRound(spec.Name, 0, n, nil))
	testkit.Receive(t, bad.ended)
	roundtest.WantStatus(t, bad.err, codes.InvalidArgument, "malformed answer", "of a sum")
	if r.GetTeachers() != 4 || len(student.ledger(t, spec.Name)) != 1 {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}

	unasked := c.node(t, hello(c.dataset(), "north", "bad", 4), roundtest.Silent)
	mustSend(t, unasked.stream, inParts(n, 1, nil)(roundtest.EmbeddingRound("r", 0, n, nil))[0])
	testkit.Receive(t, unasked.ended)
	roundtest.WantStatus(t, unasked.err, codes.InvalidArgument, "without being asked")
}
