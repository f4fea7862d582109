package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// countsThen answers for class counts with two, for the rest with these values.
func countsThen(values []int64) roundtest.Answer {
	return func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if r.GetKind() == runspec.ClassCounts {
			return roundtest.Sums([]int64{40 << 16, 60 << 16})(r)
		}
		return roundtest.Sums(values)(r)
	}
}

// askForgetting sends a round in one part, with the rounds to forget.
func (s *testStudent) askForgetting(ctx context.Context, round *conclavev1.Round, forget uint64) (*conclavev1.Release,
	error) {
	return s.askOnce(ctx, round, &conclavev1.AskRequest{Forget: forget})
}

// askOnce sends a round in one part, in a stream of its own, with what else the request says.
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

// planOf is the plan of a run as its entry in a ledger has it.
func planOf(t *testing.T, lines, run string) privacy.Plan {
	t.Helper()
	for line := range strings.Lines(lines) {
		var e ledger.Entry
		testkit.Must(t, json.Unmarshal([]byte(line), &e))
		if e.Type == ledger.EntryRun && e.Run == run {
			if e.Budget.Filter != privacy.FilterPLD {
				t.Errorf("the run's budget is %+v", *e.Budget)
			}
			return e.Plan
		}
	}
	t.Fatalf("run %q is not in the ledger", run)
	return nil
}

// A run with a plan: class counts, then sums, each with Gaussian noise of bound x multiplier
// on every number, for one event on a sample.
func TestDiscriminatorSums(t *testing.T) {
	t.Parallel()
	var private [][]int64
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(_ string, _ uint64,
		counts []int64) {
		private = append(private, slices.Clone(counts))
	}}})
	student := c.student(t)
	const weights, multiplier, bound, rate, rounds = 5000, 1.75, 1 << 12, 0.25, 3
	for _, d := range []string{c.dataset(), c.planned()} {
		private = nil
		spec, opened := student.open(t, d, roundtest.SamplesOf(multiplier, rate, rounds))
		if opened.GetRounds() != 0 || opened.GetEpsilonSpent() != 0 {
			t.Errorf("opened with %v", opened)
		}
		north, south := make([]int64, weights), make([]int64, weights)
		for i := range north {
			north[i], south[i] = int64(i%7-3)*100, int64(i%1000)*40
		}
		c.node(t, hello(d, "north", "a", 5), countsThen(north))
		c.node(t, hello(d, "south", "a", 3), countsThen(south))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.rounds.Datasets[d].Teachers() == 8 })
		counts := student.mustAsk(t, roundtest.CountRound(spec.Name, 0, 2, 1<<16))
		// exp(-50) beyond
		if v := counts.GetSum().GetValues(); len(v) != 2 || math.Abs(float64(v[0])/(1<<16)-80) > 500 {
			t.Errorf("counts %v", v)
		}
		var noise []float64
		round := func(number uint64) *conclavev1.Round {
			return roundtest.DiscriminatorRound(spec.Name, number, weights,
				func(v *conclavev1.Vector) { v.Bound = bound })
		}
		for number := uint64(1); number <= rounds; number++ {
			r := student.mustAsk(t, round(number))
			if r.GetSum().GetScale() != bound || r.GetTeachers() != 8 || len(r.GetSum().GetValues()) != weights {
				t.Fatalf("a release of %d numbers at scale %d by %d teachers", len(r.GetSum().GetValues()),
					r.GetSum().GetScale(), r.GetTeachers())
			}
			for i, v := range r.GetSum().GetValues() {
				noise = append(noise, float64(v-north[i]-south[i])/(bound*multiplier))
			}
			if again := student.mustAsk(t, round(number)); !cmp.Equal(again, r, protocmp.Transform()) {
				t.Errorf("round %d asked again has another release", number)
			}
		}
		// As in TestGradientSums: six standard deviations each, passed with a chance of 2e-9.
		var mean, square, product float64
		n := float64(len(noise))
		for i, v := range noise {
			mean, square, product = mean+v/n, square+v*v/n, product+v*noise[(i+1)%len(noise)]/n
		}
		if limit := 6 / math.Sqrt(n); math.Abs(mean) > limit || math.Abs(square-1) > math.Sqrt2*limit ||
			math.Abs(product) > limit {
			t.Errorf("%v numbers: mean %v, mean square %v, mean product %v; want 0, 1, 0 +- %v", n, mean, square,
				product, limit)
		}
		for i, of := range private[1:] {
			if of[7] != north[7]+south[7] || of[weights-1] != north[weights-1]+south[weights-1] {
				t.Errorf("round %d: before the noise %d, %d", i+1, of[7], of[weights-1])
			}
		}
		if len(private) != 1+rounds {
			t.Errorf("%d sums were drawn from", len(private))
		}

		// One round more than planned.
		_, err := student.ask(testkit.Within(t), round(rounds+1), nil)
		roundtest.WantStatus(t, err, codes.ResourceExhausted, spec.Name, "3 of them are used and 1 more")
		// Class counts were planned once.
		_, err = student.ask(testkit.Within(t), roundtest.CountRound(spec.Name, rounds+1, 2, 1<<16), nil)
		roundtest.WantStatus(t, err, codes.ResourceExhausted, spec.Name, "1 of them are used and 1 more")

		entries := student.ledger(t, spec.Name)
		if len(entries) != 1+rounds {
			t.Fatalf("%d releases in the ledger", len(entries))
		}
		for i, e := range entries {
			want, kind, place, numbers := roundtest.Subsampled(multiplier, rate), runspec.Discriminator, 0,
				int64(weights)
			if i == 0 {
				want, kind, place, numbers = roundtest.Laplace(0.1), runspec.ClassCounts, 1, 2
			}
			if diff := cmp.Diff(roundtest.Times(1, want), e.Events); diff != "" || e.Kind != kind ||
				*e.Planned != place || e.Queries != 1 || e.Answered != 1 || e.Entries != numbers {
				t.Errorf("entry %d of the plan, for %q, %d of %d queries, %d entries %s", *e.Planned, e.Kind,
					e.Answered, e.Queries, e.Entries, diff)
			}
		}
		lines := student.lines(t, spec.Name)
		plan := privacy.Plan{roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(multiplier, rate), rounds),
			roundtest.Planned(runspec.ClassCounts, roundtest.Laplace(0.1), 1)}
		if diff := cmp.Diff(plan, planOf(t, lines, spec.Name)); diff != "" {
			t.Errorf("the plan: %s", diff)
		}
		claim, err := privacy.Account(plan.Events(), 1e-5)
		testkit.Must(t, err)
		if last := entries[rounds].EpsilonSpent; !(last >= claim.Epsilon*(1-1e-9) && last <= 10) {
			t.Errorf("epsilon %v is spent at the end, the claim is %v", last, claim.Epsilon)
		}
		_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
		testkit.Must(t, err)
		verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
		testkit.Must(t, err)
		if got := verified.Runs[spec.Name]; got.Releases != 1+rounds || got.Queries != 1+rounds ||
			math.Abs(got.Price.Epsilon-claim.Epsilon) > 1e-9 {
			t.Errorf("the ledger has %+v", got)
		}
	}
}

// Questions that a run does not allow are refused before a node sees them, and cost nothing.
// What else is refused, package shape tests.
func TestQuestionsAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, roundtest.SamplesOf(2, 0.25, 2))
	n := c.node(t, hello(d, "north", "a", 8), countsThen(make([]int64, 6)))
	const something = "pays for discriminator, and the round asks for "
	rate := func(rate float64) *conclavev1.Round {
		return roundtest.DiscriminatorRound(spec.Name, 0, 6, func(v *conclavev1.Vector) { v.Rate = rate })
	}
	for name, c := range map[string]struct {
		round *conclavev1.Round
		code  codes.Code
		want  string
	}{
		"another rate": {rate(0.2), codes.FailedPrecondition, "pays for rate 0.25"},
		"rate 1":       {rate(1), codes.FailedPrecondition, "pays for rate 0.25"},
		"rate NaN":     {rate(math.NaN()), codes.InvalidArgument, "rate NaN"},
		"many entries": {roundtest.DiscriminatorRound(spec.Name, 0, roundtest.MaxEntries+1, nil),
			codes.InvalidArgument, "2097153 entries"},
		"gradients": {roundtest.GradientRound(spec.Name, 0, 2, nil), codes.FailedPrecondition,
			something + "gradient-sums"},
		"votes": {roundtest.VoteRound(spec.Name, 0, 2), codes.FailedPrecondition, something + "votes"},
		"bins":  {roundtest.BinRound(spec.Name, 0, 2), codes.FailedPrecondition, something + "gradient-votes"},
	} {
		_, err := student.ask(testkit.Within(t), c.round, nil)
		roundtest.WantStatus(t, err, c.code, c.want)
		if entries := student.ledger(t, spec.Name); len(n.rounds) != 0 || len(entries) != 0 {
			t.Fatalf("%s: the node saw %d rounds, charged was %v", name, len(n.rounds), entries)
		}
	}
	// A question that is right after all those is answered.
	if r := student.mustAsk(t, roundtest.DiscriminatorRound(spec.Name, 0, 6, nil)); r.GetTeachers() != 8 {
		t.Errorf("released %v", r)
	}
}

func TestPlansAreRefusedWhenTheRunIsOpened(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	student := c.student(t)
	open := func(d string, change func(*conclavev1.RunSpec)) error {
		spec := roundtest.Spec()
		spec.Dataset, spec.Name = d, "run-"+d
		change(spec)
		_, err := student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
		return err
	}
	// Noise that the run's own budget has no room for, and one step more than it has.
	// epsilon between 9 and 20 on samples, far above 100 as if everybody took part
	many := roundtest.SamplesOf(1, 0.05, 2000)
	d := c.dataset()
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) { roundtest.SamplesOf(1, 1, 3)(s); s.Epsilon = 1 }),
		codes.ResourceExhausted, "the whole plan")
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 9 }), codes.ResourceExhausted,
		"the whole plan")
	// The class counts are part of it.
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) {
		roundtest.SamplesOf(100, 0.01, 1)(s)
		s.Epsilon = 1
		roundtest.Shares(2)(s)
	}), codes.ResourceExhausted, "the whole plan")
	// A dataset with the filter gdp counts samples as if everybody took part.
	roundtest.WantStatus(t, open(d, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 20 }), codes.ResourceExhausted,
		d)
	testkit.Must(t, open(d, roundtest.SamplesOf(2, 0.25, 5)))
	// One with pld counts them for what they are, and has one run.
	p := c.planned()
	roundtest.WantStatus(t, open(p, func(s *conclavev1.RunSpec) {
		many(s)
		s.Plan[0].Mechanism.NoiseMultiplier, s.Epsilon, s.Delta = 0.5, 1000, 1e-6
	}), codes.ResourceExhausted, p)
	roundtest.WantStatus(t, open(p, func(s *conclavev1.RunSpec) {}), codes.FailedPrecondition, "plan")
	testkit.Must(t, open(p, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 20 }))
	testkit.Must(t, open(p, func(s *conclavev1.RunSpec) { many(s); s.Epsilon = 20 })) // the same again
	roundtest.WantStatus(t, open(p, func(s *conclavev1.RunSpec) {
		roundtest.SamplesOf(100, 0.05,
			1)(s)
		s.Name = "second"
	}), codes.FailedPrecondition, p)

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
		"a vote":        {roundtest.Wholly, "filter pld prices the whole plan beforehand"},
		"an open sum":   {roundtest.Both(roundtest.Wholly, roundtest.SumsOf(2)), "give each entry a count"},
		"an open vote": {roundtest.Both(roundtest.SamplesOf(2, 0.25, 2),
			roundtest.Also(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 0))), "give each entry a count"},
		"confident vote": {roundtest.Both(roundtest.SamplesOf(2, 0.25, 2),
			roundtest.Also(roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(5, 30, 20), 2))),
			"use no confident-gnmax"},
	} {
		if err := open("d39", c.change); err == nil {
			t.Errorf("%s: opened", name)
		} else {
			roundtest.WantStatus(t, err, codes.InvalidArgument, c.want)
		}
	}
}

// Answers below the round that a student says are dropped when the next is charged, and
// not before; they are never drawn again. The others stay as they are.
func TestForgettingReleases(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.planned()
	spec, _ := student.open(t, d, roundtest.SamplesOf(2, 0.25, 8))
	n := c.node(t, hello(d, "north", "a", 8), countsThen(make([]int64, 6)))
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
				roundtest.WantStatus(t, err, codes.FailedPrecondition, "was released and its answer dropped",
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
	// A round that asks to forget itself or later ones is refused, and one that is not
	// charged forgets nothing.
	for _, forget := range []uint64{6, 100, math.MaxUint64} {
		_, err := student.askForgetting(testkit.Within(t), round(5), forget)
		roundtest.WantStatus(t, err, codes.InvalidArgument, "cannot forget itself")
	}
	_, err := student.askForgetting(testkit.Within(t),
		roundtest.DiscriminatorRound(spec.Name, 5, 6, func(v *conclavev1.Vector) { v.Rate = 1 }), 4)
	roundtest.WantStatus(t, err, codes.FailedPrecondition, "rate")
	_, err = student.askForgetting(testkit.Within(t), round(3), 3) // a stored one
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
	forget(6, 2, 3) // an older state forgets nothing more, and brings nothing back
	forget(7, 7, 7)

	// So it stays after a restart.
	testkit.Must(t, c.stop())
	c.start(Options{})
	student = c.student(t)
	n = c.node(t, hello(d, "north", "a", 8), roundtest.Sums(make([]int64, 6)))
	check(7, 0)
	if _, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name))); !errors.Is(err,
		ledger.ErrUnclosed) {
		t.Errorf("the ledger of an open run: %v", err)
	}
	_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	check(7, 0)
}
