package aggregator

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// askForgetting sends a round in one part, with the first round to keep.
func (s *testStudent) askForgetting(ctx context.Context, round *conclavev1.Round, forget uint64) (*conclavev1.Release,
	error) {
	return s.askOnce(ctx, round, &conclavev1.AskRequest{Forget: forget})
}

// askOnce sends a round in one part on its own stream; change adapts the request.
func (s *testStudent) askOnce(ctx context.Context, round *conclavev1.Round, q *conclavev1.AskRequest) (
	*conclavev1.Release, error) {
	raw, err := proto.Marshal(round)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.Ask(ctx)
	if err != nil {
		return nil, err
	}
	q.Part = &conclavev1.RoundPart{Run: round.Run, Round: round.Number, Parts: 1, Data: raw}
	if err := stream.Send(q); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if r := m.GetRelease(); r != nil {
			return r, nil
		}
	}
}

// Questions that a run does not allow are refused before a node sees them, and cost nothing. Package shape tests the
// other refusals.
func TestQuestionsAreRefused(t *testing.T) {
	c := shared(t)
	student, spec, n := c.begin(t, roundtest.SamplesOf(2, 0.25, 2), roundtest.Sums(make([]int64, 6)))
	rate := func(rate float64) *conclavev1.Round {
		return roundtest.DiscriminatorRound(spec.Name, 0, 6, func(v *conclavev1.Vector) { v.Rate = rate })
	}
	for name, c := range map[string]struct {
		round *conclavev1.Round
		code  codes.Code
		want  string
	}{
		"another rate": {rate(0.2), codes.FailedPrecondition, "pays for rate 0.25"},
		"rate NaN":     {rate(math.NaN()), codes.InvalidArgument, "rate NaN"},
		"votes": {roundtest.VoteRound(spec.Name, 0, 2), codes.FailedPrecondition,
			"pays for discriminator, but the round asks for votes"},
	} {
		student.refused(t, c.round, c.code, c.want)
		if entries := student.ledger(t, spec.Name); len(n.rounds) != 0 || len(entries) != 0 {
			t.Fatalf("%s: the node saw %d rounds, charged was %v", name, len(n.rounds), entries)
		}
	}
	// A valid question after all those is answered.
	if r := student.mustAsk(t, roundtest.DiscriminatorRound(spec.Name, 0, 6, nil)); r.GetTeachers() != 8 {
		t.Errorf("released %v", r)
	}
}

func TestPlansAreRefusedWhenTheRunIsOpened(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	open := func(d string, change func(*conclavev1.RunSpec)) error { return student.tryOpen(t, d, change) }
	// One step more than the run's own budget admits is refused. Epsilon is between 9 and 20 on samples, and far
	// above 100 if everybody took part.
	many := roundtest.SamplesOf(1, 0.05, 2000)
	d := c.dataset()
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) { roundtest.SamplesOf(1, 1, 3)(s); s.Epsilon = 1 }),
		codes.ResourceExhausted, "the whole plan")
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 9 }), codes.ResourceExhausted,
		"the whole plan")
	// The class counts are part of the plan.
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) {
		roundtest.SamplesOf(100, 0.01, 1)(s)
		s.Epsilon = 1
		roundtest.Shares(2)(s)
	}), codes.ResourceExhausted, "the whole plan")
	// A dataset with the filter gdp prices samples as if they held every unit.
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 20 }), codes.ResourceExhausted,
		d)
	testkit.Must(t, open(d, roundtest.SamplesOf(2, 0.25, 5)))
	// A dataset with the filter pld prices samples exactly, and admits one run.
	p := c.planned()
	roundtest.WantStatus(t, open(p, func(s *conclavev1.RunSpec) {
		many(s)
		s.Plan[0].Mechanism.NoiseMultiplier, s.Epsilon, s.Delta = 0.5, 1000, 1e-6
	}), codes.ResourceExhausted, p)
	roundtest.WantStatus(t, open(p, func(s *conclavev1.RunSpec) {}), codes.FailedPrecondition, "plan")
	testkit.Must(t, open(p, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 20 }))
	testkit.Must(t, open(p, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 20 })) // the same plan again
	roundtest.WantStatus(t, open(p, func(s *conclavev1.RunSpec) {
		roundtest.SamplesOf(100, 0.05,
			1)(s)
		s.Name = "second"
	}), codes.FailedPrecondition, p)

	refusing := c.dataset()
	for name, c := range map[string]struct {
		change func(*conclavev1.RunSpec)
		want   string
	}{
		"no rounds":     {roundtest.SamplesOf(2, 0.25, 0), "give discriminator a count"},
		"many rounds":   {roundtest.SamplesOf(2, 0.25, 1_000_000<<16+1), "count is 65536000001"},
		"rate above 1":  {roundtest.SamplesOf(2, 1.5, 2), "rate is 1.5"},
		"negative rate": {roundtest.SamplesOf(2, -0.5, 2), "rate is -0.5"},
		"rate NaN":      {roundtest.SamplesOf(2, math.NaN(), 2), "rate is NaN"},
		"no noise":      {roundtest.SamplesOf(0, 0.5, 2), "noise_multiplier is 0"},
		"noise of NaN":  {roundtest.SamplesOf(math.NaN(), 0.5, 2), "noise_multiplier is NaN"},
		"a vote":        {roundtest.Wholly, "filter pld prices the whole plan in advance"},
		"an open sum":   {roundtest.Both(roundtest.Wholly, roundtest.SumsOf(2)), "give each entry a count"},
		"an open vote": {roundtest.Both(roundtest.SamplesOf(2, 0.25, 2),
			roundtest.Also(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 0))), "give each entry a count"},
		"confident vote": {roundtest.Both(roundtest.SamplesOf(2, 0.25, 2),
			roundtest.Also(roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(5, 30, 20), 2))),
			"do not use confident-gnmax"},
	} {
		if err := open(refusing, c.change); err == nil {
			t.Errorf("%s: opened", name)
		} else {
			roundtest.WantStatus(t, err, codes.InvalidArgument, c.want)
		}
	}
}

// Answers below the student's number are dropped when the next round is charged, not earlier, and are never drawn
// again. The others stay unchanged.
func TestForgettingReleases(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.planned()
	spec, _ := student.open(t, d, roundtest.SamplesOf(2, 0.25, 8))
	n := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		return roundtest.Sums(make([]int64, r.GetSum().GetEntries()))(r)
	})
	round := func(number uint64) *conclavev1.Round { return roundtest.DiscriminatorRound(spec.Name, number, 6, nil) }
	released := []*conclavev1.Release{student.mustAsk(t, roundtest.CountRound(spec.Name, 0, 2, 1<<16))}
	for number := uint64(1); number < 5; number++ {
		released = append(released, student.mustAsk(t, round(number)))
	}
	check := func(forgotten uint64, asked int) {
		t.Helper()
		for number := range uint64(len(released)) {
			q := round(number)
			if number == 0 {
				q = roundtest.CountRound(spec.Name, 0, 2, 1<<16)
			}
			r, err := student.ask(testkit.Within(t), q, nil)
			if number < forgotten {
				roundtest.WantStatus(t, err, codes.FailedPrecondition, "was released, and its answer was deleted",
					"newest checkpoint")
			} else if err != nil || !cmp.Equal(r, released[number], protocmp.Transform()) {
				t.Errorf("round %d: %v, %v; want %v", number, r, err, released[number])
			}
		}
		if entries := student.ledger(t, spec.Name); len(entries) != len(released) || len(n.rounds) != asked {
			t.Errorf("%d releases in the ledger, the node saw %d rounds; want %d, %d", len(entries), len(n.rounds),
				len(released), asked)
		}
	}
	check(0, 5)
	// A round that asks to forget itself or later rounds is refused. A round that is not charged forgets nothing.
	for _, forget := range []uint64{6, 100, math.MaxUint64} {
		_, err := student.askForgetting(testkit.Within(t), round(5), forget)
		roundtest.WantStatus(t, err, codes.InvalidArgument, "cannot drop itself")
	}
	_, err := student.askForgetting(testkit.Within(t),
		roundtest.DiscriminatorRound(spec.Name, 5, 6, func(v *conclavev1.Vector) { v.Rate = 1 }), 4)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "rate")
	_, err = student.askForgetting(testkit.Within(t), round(3), 3) // a stored round
	testkit.Must(t, err)
	check(0, 5)

	forget := func(number, below, forgotten uint64) {
		t.Helper()
		r, err := student.askForgetting(testkit.Within(t), round(number), below)
		testkit.Must(t, err)
		released = append(released, r)
		check(forgotten, int(number)+1)
	}
	forget(5, 3, 3)
	forget(6, 2, 3) // an older number forgets nothing more and restores nothing
	forget(7, 7, 7)

	// This survives a restart.
	testkit.Must(t, c.stop())
	c.start(Options{})
	student = c.student(t)
	n = c.node(t, hello(d, "north", "a", 8), roundtest.Sums(make([]int64, 6)))
	check(7, 0)
	if _, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name))); !errors.Is(err,
		ledger.ErrUnclosed) {
		t.Errorf("the ledger of an open run: %v", err)
	}
	student.close(t, spec.Name)
	check(7, 0)
}
