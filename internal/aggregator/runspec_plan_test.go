package aggregator

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// in gives an entry a stage after training.
func in(stage string, p privacy.Planned) privacy.Planned {
	p.Stage = stage
	return p
}

// What a run cannot ask is found when it is opened.
func TestPlansAreChecked(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	fitBy := func(noise privacy.Event) func(*conclavev1.RunSpec) { return also(planned(runspec.Fit, noise, 1)) }
	gammaBy := func(epsilon float64) func(*conclavev1.RunSpec) {
		return also(privacy.Planned{Kind: runspec.Fit, Mechanism: laplace(epsilon), Count: 1, Variant: privacy.NormGamma})
	}
	selects := func(epsilon float64, count int64) func(*conclavev1.RunSpec) {
		return also(planned(runspec.Scores, exponential(epsilon), count))
	}
	weighs := func(multiplier, rate float64, count int64) func(*conclavev1.RunSpec) {
		return also(in(runspec.Sampled, planned(runspec.Discriminator, subsampled(multiplier, rate), count)))
	}
	entry := func(change func(*conclavev1.Planned)) func(*conclavev1.RunSpec) {
		return func(s *conclavev1.RunSpec) { change(s.Plan[0]) }
	}
	votesBy := func(mechanism privacy.Event) func(*conclavev1.RunSpec) {
		return also(planned(runspec.Votes, mechanism, 1))
	}
	const third = "plan, entry 2: "
	for name, c := range map[string]struct {
		change func(*conclavev1.RunSpec)
		want   string
	}{
		"no epsilon of selections": {selects(0, 5), third + "exponential event: epsilon is 0"},
		"negative epsilon":         {selects(-1, 5), third + "exponential event: epsilon is -1"},
		"epsilon of NaN":           {selects(nan, 5), third + "exponential event: epsilon is NaN"},
		"infinite epsilon":         {selects(inf, 5), third + "exponential event: epsilon is +Inf"},
		"tiny epsilon":             {selects(5e-324, 5), third},
		"too many":                 {selects(1, 1_000_000<<16+1), third + "count is 65536000001"},
		"absurdly many":            {entry(func(p *conclavev1.Planned) { p.Count = math.MaxUint64 }), "plan, entry 0: count is 18446744073709551615"},
		"no kind of noise":         {fitBy(privacy.Event{}), third + `kind "" is unknown; use one of [gaussian`},
		"another kind":             {fitBy(privacy.Event{Kind: "uniform", Epsilon: 1}), third + `kind "uniform" is unknown`},
		"gaussian without sigma":   {fitBy(gaussian(0)), third + "gaussian event: sigma is 0"},
		"gaussian of NaN":          {fitBy(gaussian(nan)), third + "gaussian event: sigma is NaN"},
		"gaussian below zero":      {fitBy(gaussian(-1)), third + "gaussian event: sigma is -1"},
		"gaussian of epsilon too": {fitBy(privacy.Event{Kind: privacy.Gaussian, Sigma: 1, Sensitivity: 1, Epsilon: 1}),
			third + "gaussian event: epsilon does not belong"},
		"gaussian of no length":   {fitBy(privacy.Event{Kind: privacy.Gaussian, Sigma: 1}), third + "gaussian event: sensitivity is 0"},
		"gaussian of length 2":    {fitBy(privacy.Event{Kind: privacy.Gaussian, Sigma: 1, Sensitivity: 2}), "gaussian with sensitivity 1"},
		"laplace of sigma too":    {fitBy(privacy.Event{Kind: privacy.Laplace, Epsilon: 1, Sigma: 1}), third + "laplace event: sigma does not belong"},
		"laplace without epsilon": {fitBy(laplace(0)), third + "laplace event: epsilon is 0"},
		"laplace below zero":      {fitBy(laplace(-1)), third + "laplace event: epsilon is -1"},
		"norm-gamma of NaN":       {gammaBy(nan), third + "laplace event: epsilon is NaN"},
		"infinite norm-gamma":     {gammaBy(inf), third + "laplace event: epsilon is +Inf"},
		"samples without a rate":  {weighs(2, 0, 5), third + "subsampled-gaussian event: rate is 0"},
		"rate above 1":            {weighs(2, 1.5, 5), third + "subsampled-gaussian event: rate is 1.5"},
		"rate of NaN":             {weighs(2, nan, 5), third + "subsampled-gaussian event: rate is NaN"},
		"samples without noise":   {weighs(0, 0.5, 5), third + "subsampled-gaussian event: noise_multiplier is 0"},
		"samples of no number":    {weighs(2, 0.5, 0), third + "sums over samples are accounted by plans alone"},
		"open votes of a plan":    {wholly, "filter pld prices the whole plan beforehand"},
		"an open sum of a plan":   {both(wholly, asks(embedding(3))), "give each entry a count"},
		"a plan with an open end": {both(samplesOf(2, 0.5, 5), also(planned(runspec.Votes, gnMax(20), 0))), "give each entry a count"},
		"confident votes in a plan": {both(samplesOf(2, 0.5, 5), also(planned(runspec.Votes, confidentMax(5, 30, 20), 5))),
			"use no confident-gnmax"},
		"a plan of nothing": {asks(), "plan has 0 entries"},
		"257 entries":       {asks(slices.Repeat(privacy.Plan{planned(runspec.Votes, gnMax(20), 0)}, 257)...), "plan has 257 entries"},
		"no kind":           {entry(func(p *conclavev1.Planned) { p.Kind = "" }), `plan, entry 0: kind is ""`},
		"kind of a line":    {entry(func(p *conclavev1.Planned) { p.Kind = "votes\n" }), "plan, entry 0: kind is"},
		"capital stage":     {entry(func(p *conclavev1.Planned) { p.Stage = "Fit" }), `plan, entry 0: stage is "Fit"`},
		"no mechanism":      {entry(func(p *conclavev1.Planned) { p.Mechanism = nil }), "plan, entry 0: kind"},
		"a count inside":    {entry(func(p *conclavev1.Planned) { p.Mechanism.Count = 1 }), "plan, entry 0: mechanism has counts of its own"},
		"asked inside":      {entry(func(p *conclavev1.Planned) { p.Mechanism.Asked = 1 }), "plan, entry 0: mechanism has counts of its own"},
		"a foreign variant": {entry(func(p *conclavev1.Planned) { p.Variant = privacy.NormGamma }), `variant "norm-gamma" does not belong to gnmax`},
		// Noise that has a price and cannot be drawn.
		"wide votes":              {votesBy(gnMax(1e12)), third + "gnmax: "},
		"wide laplace votes":      {votesBy(lnMax(1e-13)), third + "lnmax: "},
		"a wide threshold":        {votesBy(confidentMax(5, 1e12, 20)), third + "confident-gnmax: threshold test: "},
		"a wide confident answer": {votesBy(confidentMax(5, 30, 1e12)), third + "confident-gnmax: answer: "},
		"narrow votes":            {votesBy(gnMax(1e-9)), third + "gnmax: "},
		"wide sums":               {also(planned(runspec.GradientSums, gaussian(1e10), 0)), third + "gaussian sum: "},
		"narrow sums":             {also(planned(runspec.GradientSums, gaussian(1e-12), 0)), third + "gaussian sum: "},
		"wide sums of samples":    {weighs(1e10, 0.5, 5), third + "gaussian sum: "},
		"samples of next to none": {weighs(2, 1e-30, 5), "sampling rate is 1e-30; it must be"},
		"wide counts":             {shares(1e-12), "plan, entry 1: epsilon 1e-12 of class-counts: "},
		"wide selections":         {selects(1e-12, 5), third + "exponential: "},
	} {
		pb := goodSpec()
		c.change(pb)
		if _, err := newRunSpec(pb); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), pb.Name) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		} else if codeOf(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, codeOf(err))
		}
	}
}

// A plan is all that a run may ask, training and stages together, and is read as it was
// stored. What it costs is known beforehand where all of it has a number.
func TestPlansOfStages(t *testing.T) {
	counts := planned(runspec.ClassCounts, laplace(0.1), 1)
	selections := in(runspec.Selections, planned(runspec.Scores, exponential(0.25), 7))
	training := planned(runspec.Discriminator, subsampled(2, 0.25), 5)
	weighing := in(runspec.Sampled, planned(runspec.Discriminator, subsampled(3, 0.1), 4))
	again := in(runspec.Sampled, planned(runspec.Discriminator, subsampled(2, 0.25), 4))
	other := in(runspec.Sampled, planned(runspec.Discriminator, subsampled(3, 0.25), 4))
	votes := histograms(planned(runspec.Votes, gnMax(20), 9))
	pure := in(runspec.Coefficients, planned(runspec.Fit, laplace(0.5), 1))
	cheap := privacy.Planned{Kind: runspec.Fit, Stage: runspec.Coefficients, Mechanism: laplace(0.1), Count: 1, Variant: privacy.NormGamma}
	noisy := in(runspec.Coefficients, planned(runspec.Fit, gaussian(4), 1))
	confident := planned(runspec.Votes, confidentMax(5, 30, 20), 6)
	for name, c := range map[string]struct {
		plan   privacy.Plan
		filter privacy.Filter
		want   []privacy.Event
	}{
		"selections beside open votes": {privacy.Plan{planned(runspec.Votes, gnMax(20), 0), selections}, "", selections.Worst(7)},
		"confident votes":              {privacy.Plan{confident, selections}, "", slices.Concat(confident.Worst(6), selections.Worst(7))},
		"samples of both kinds": {privacy.Plan{counts, training, weighing, selections}, privacy.FilterPLD,
			slices.Concat(counts.Worst(1), training.Worst(5), weighing.Worst(4), selections.Worst(7))},
		"samples of one kind":         {privacy.Plan{training, again}, privacy.FilterPLD, training.Worst(9)},
		"one rate and two noises":     {privacy.Plan{training, other}, privacy.FilterPLD, slices.Concat(training.Worst(5), other.Worst(4))},
		"samples and pure noise":      {privacy.Plan{training, pure}, privacy.FilterPLD, slices.Concat(training.Worst(5), pure.Worst(1))},
		"samples and gaussian noise":  {privacy.Plan{training, noisy}, privacy.FilterPLD, slices.Concat(training.Worst(5), noisy.Worst(1))},
		"votes and samples":           {privacy.Plan{counts, votes, weighing}, privacy.FilterPLD, slices.Concat(counts.Worst(1), votes.Worst(9), weighing.Worst(4))},
		"votes, selections and a fit": {privacy.Plan{votes, selections, pure}, privacy.FilterPLD, slices.Concat(votes.Worst(9), selections.Worst(7), pure.Worst(1))},
		"equal pure noises add up":    {privacy.Plan{counts, votes, cheap}, privacy.FilterPLD, slices.Concat(times(2, laplace(0.1)), votes.Worst(9))},
		"stages of an earlier run":    {privacy.Plan{selections, pure}, privacy.FilterPLD, slices.Concat(selections.Worst(7), pure.Worst(1))},
	} {
		pb := goodSpec()
		asks(c.plan...)(pb)
		pb.Filter = string(c.filter)
		raw, err := proto.Marshal(pb)
		testkit.Must(t, err)
		spec, err := parseRunSpec(raw)
		testkit.Must(t, err)
		if diff := cmp.Diff(c.plan, spec.plan); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(c.want, spec.plan.Events()); diff != "" {
			t.Errorf("%s: it costs %s", name, diff)
		}
		if spec.budget.Filter != c.filter || c.filter != "" && !spec.plan.Fixed() {
			t.Errorf("%s: filter %q of a plan that is fixed: %v", name, spec.budget.Filter, spec.plan.Fixed())
		}
	}
}

// Each entry of a plan is used as often as it says, also beside one that costs the same, and
// a round is paid for by the entry that it names and no other. What is not is refused before
// a node is asked.
func TestRoundsKeepToThePlanOfStages(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.planned()
	plan := privacy.Plan{
		planned(runspec.Discriminator, subsampled(2, 0.25), 1),
		in(runspec.Sampled, planned(runspec.Discriminator, subsampled(3, 0.25), 1)), // as dp-mlp beside dpgan
		in("again", planned(runspec.Discriminator, subsampled(2, 0.25), 1)),
		in(runspec.Selections, planned(runspec.Scores, exponential(0.25), 2)),
		planned(runspec.Discriminator, subsampled(3, 0.5), 1),
	}
	spec, _ := student.open(t, d, both(wholly, asks(plan...)))
	node := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		if r.GetSum().GetScores() != nil {
			return sums(units(0, 0))(r)
		}
		return sums(make([]int64, 3))(r)
	})
	at := func(number uint64, entry uint32, rate float64) *conclavev1.Round {
		r := discriminatorRound(spec.Name, number, 3, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate })
		r.Planned = entry
		return r
	}
	selection := func(number uint64) *conclavev1.Round {
		return paid(spec, runspec.Selections, selectionRound(spec.Name, number, units(0, 0), func(q *conclavev1.Selection) { q.ScoresRound = 1 }))
	}
	charged := 0
	refused := func(r *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		seen := len(node.rounds)
		_, err := student.ask(testkit.Within(t), r, nil)
		wantStatus(t, err, code, append(names, spec.Name)...)
		if len(node.rounds) != seen || len(student.ledger(t, spec.Name)) != charged {
			t.Error("the node was asked, or the round charged")
		}
	}
	paysFor := func(entry int, r *conclavev1.Round, multiplier float64) {
		t.Helper()
		student.mustAsk(t, r)
		charged++
		e := student.ledger(t, spec.Name)[charged-1]
		if *e.Planned != entry || !cmp.Equal(e.Events, plan[entry].Worst(1)) || e.Kind != plan[entry].Kind || e.Queries != 1 || e.Answered != 1 {
			t.Errorf("round %d is charged as %+v", r.Number, e)
		}
		if multiplier != 0 && e.Events[0].NoiseMultiplier != multiplier {
			t.Errorf("round %d is charged as %+v", r.Number, e)
		}
	}
	refused(at(0, 0, 0.3), codes.FailedPrecondition, "rate 0.3", "pays for rate 0.25")
	refused(at(0, 4, 0.25), codes.FailedPrecondition, "rate 0.25", "pays for rate 0.5")
	refused(at(0, 3, 0.25), codes.FailedPrecondition, "entry 3", "pays for scores, and the round asks for discriminator")
	refused(at(0, 5, 0.25), codes.FailedPrecondition, "has a plan of 5 entries, and the round names entry 5")
	refused(at(0, math.MaxUint32, 0.25), codes.FailedPrecondition, "names entry 4294967295")
	refused(paid(spec, "", scoreRound(spec.Name, 0, units(0, 0), nil)), codes.FailedPrecondition, "entry 0", "pays for discriminator, and the round asks for scores")
	paysFor(0, at(0, 0, 0.25), 2)
	refused(at(1, 0, 0.25), codes.ResourceExhausted, "the run's plan has 1", "1 of them are used and 1 more were asked")
	paysFor(3, paid(spec, runspec.Selections, scoreRound(spec.Name, 1, units(0, 0), nil)), 0)
	paysFor(3, selection(2), 0)
	refused(selection(3), codes.ResourceExhausted, "the run's plan has 2", "2 of them are used and 1 more were asked")
	paysFor(1, at(3, 1, 0.25), 3)
	refused(at(4, 1, 0.25), codes.ResourceExhausted, "1 of them are used")
	paysFor(2, at(4, 2, 0.25), 2) // that of the first, which is used
	refused(at(5, 2, 0.25), codes.ResourceExhausted, "1 of them are used")
	refused(at(5, 0, 0.25), codes.ResourceExhausted, "1 of them are used")
	paysFor(4, at(5, 4, 0.5), 3)
	refused(at(6, 4, 0.5), codes.ResourceExhausted, "1 of them are used")
	_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
	if got := verified.Runs[spec.Name]; got.Releases != charged || !got.Closed || !slices.Equal(got.Used, []int64{1, 1, 1, 2, 1}) {
		t.Errorf("the ledger has %+v", got)
	}
}

// An entry with a number is used no more often without filter pld either, however much of
// the budget is left; one that is cheaper does not pay in its place.
func TestEntriesAreUsedUpWithoutAPlansPrice(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	d := c.dataset()
	spec, _ := student.open(t, d, asks(histograms(planned(runspec.Votes, gnMax(20), 5)), planned(runspec.Votes, gnMax(2000), 5)))
	n := c.node(t, hello(d, "north", "a", 8), votes(8, alternating))
	student.mustAsk(t, voteRound(spec.Name, 0, 3))
	_, err := student.ask(testkit.Within(t), voteRound(spec.Name, 1, 3), nil)
	wantStatus(t, err, codes.ResourceExhausted, "the run's plan has 5", "3 of them are used and 3 more", spec.Name)
	if len(n.rounds) != 1 {
		t.Errorf("the node saw %d rounds", len(n.rounds))
	}
	student.mustAsk(t, voteRound(spec.Name, 1, 2))
	cheap := voteRound(spec.Name, 2, 5)
	cheap.Planned = 1
	if r := student.mustAsk(t, cheap); len(r.GetVotes().GetHistogram()) != 0 { // the entry's own variant
		t.Errorf("released %v", r)
	}
	entries := student.ledger(t, spec.Name)
	for i, want := range [][]privacy.Event{times(3, gnMax(20)), times(2, gnMax(20)), times(5, gnMax(2000))} {
		if diff := cmp.Diff(want, entries[i].Events); diff != "" {
			t.Errorf("round %d: %s", i, diff)
		}
	}
}
