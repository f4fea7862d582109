package spec

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Impossible embedding noise is found when the run is opened.
func TestEmbeddingNoiseIsCheckedWhenTheRunIsOpened(t *testing.T) {
	for name, sigma := range map[string]float64{
		"NaN": math.NaN(), "negative": -1, "infinite": math.Inf(1), "negative infinity": math.Inf(-1),
		"too small": 1e-9, "tiny": 5e-324, "too large": 1e9,
	} {
		for _, change := range []func(*conclavev1.RunSpec){nil, roundtest.SumsOf(2), roundtest.SamplesOf(2, 0.25, 2)} {
			spec := roundtest.Spec()
			if change != nil {
				change(spec)
			}
			roundtest.Also(roundtest.Planned(runspec.Embedding, roundtest.Gaussian(sigma), 1))(spec)
			if _, err := New(spec); err == nil || !strings.Contains(err.Error(), "plan, entry 2: gaussian") ||
				!strings.Contains(err.Error(), spec.Name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	pb := roundtest.Spec()
	roundtest.EmbeddingOf(3)(pb)
	s, err := New(pb)
	testkit.Must(t, err)
	if !cmp.Equal(s.Plan, privacy.Plan{roundtest.Embedding(3)}) || s.Budget.Filter != "" {
		t.Errorf("read as %+v", s)
	}
}

// The noise of a sum must be positive, and small enough to be drawn.
func TestRunsOfSumsAreChecked(t *testing.T) {
	for _, multiplier := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-9, 1e9} {
		pb := roundtest.Spec()
		roundtest.SumsOf(multiplier)(pb)
		if _, err := New(pb); err == nil || fault.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), "plan, entry 0: gaussian") {
			t.Errorf("noise multiplier %v: %v", multiplier, err)
		}
	}
	pb := roundtest.Spec()
	roundtest.SumsOf(1.5)(pb)
	raw, err := proto.Marshal(pb)
	testkit.Must(t, err)
	if got, err := Parse(raw); err != nil || got.Plan[0] != roundtest.Planned(runspec.GradientSums,
		roundtest.Gaussian(1.5), 0) {
		t.Errorf("a stored run of sums is read as %+v, %v", got, err)
	}
}

func TestRunSpecRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *conclavev1.RunSpec)
		want   string
	}{
		"no name":           {func(s *conclavev1.RunSpec) { s.Name = "" }, "name"},
		"slash in the name": {func(s *conclavev1.RunSpec) { s.Name = "a/b" }, "name"},
		"epsilon 0":         {func(s *conclavev1.RunSpec) { s.Epsilon = 0 }, "epsilon"},
		"epsilon NaN":       {func(s *conclavev1.RunSpec) { s.Epsilon = math.NaN() }, "epsilon"},
		"delta 1":           {func(s *conclavev1.RunSpec) { s.Delta = 1 }, "delta"},
		"data-dependent":    {func(s *conclavev1.RunSpec) { s.Guarantee = "data-dependent" }, "data-independent"},
		"no guarantee":      {func(s *conclavev1.RunSpec) { s.Guarantee = "" }, "data-independent"},
		"no teachers":       {func(s *conclavev1.RunSpec) { s.Teachers = 0 }, "teachers"},
		"quorum 0":          {func(s *conclavev1.RunSpec) { s.Quorum = 0 }, "quorum"},
		"quorum above 1":    {func(s *conclavev1.RunSpec) { s.Quorum = 1.01 }, "quorum"},
		"quorum NaN":        {func(s *conclavev1.RunSpec) { s.Quorum = math.NaN() }, "quorum"},
		"no deadline":       {func(s *conclavev1.RunSpec) { s.DeadlineSeconds = 0 }, "deadline_seconds"},
		"endless deadline":  {func(s *conclavev1.RunSpec) { s.DeadlineSeconds = math.Inf(1) }, "deadline_seconds"},
		"negative share":    {roundtest.Shares(-1), "plan, entry 1: laplace event: epsilon is -1"},
		"a large spec": {func(s *conclavev1.RunSpec) { s.Unit = strings.Repeat("u", 16<<10) },
			"the maximum is 16384"},
		"a long pipeline": {func(s *conclavev1.RunSpec) { s.Pipeline = strings.Repeat("p", 33) }, "use 1 to 32 " +
			"small letters"},
		"no pipeline":        {func(s *conclavev1.RunSpec) { s.Pipeline = "" }, "use 1 to 32 small letters"},
		"a purpose of lines": {func(s *conclavev1.RunSpec) { s.Purpose = "a\nb" }, "purpose has a character"},
		"a long purpose": {func(s *conclavev1.RunSpec) { s.Purpose = strings.Repeat("p", 201) },
			"purpose has 201 characters"},
		"pipeline of lines": {func(s *conclavev1.RunSpec) { s.Pipeline = "a\nb" }, "use 1 to 32 small letters"},
		"an unknown field": {func(s *conclavev1.RunSpec) {
			s.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
		}, "unknown fields"},
		"an unknown field of a plan": {func(s *conclavev1.RunSpec) {
			s.Plan[0].Mechanism.ProtoReflect().SetUnknown(
				protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
		}, "unknown fields"},
		"a long plan": {func(s *conclavev1.RunSpec) { s.Plan = slices.Repeat(s.Plan[:1], 65) },
			"65 entries; the maximum is 64"},
		"no plan":      {roundtest.Asks(), "plan has 0 entries"},
		"no mechanism": {func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism = nil }, "plan, entry 0: kind"},
		"no noise": {func(s *conclavev1.RunSpec) { s.Plan[0].Mechanism.Sigma = 0 },
			"plan, entry 0: gnmax event: sigma is 0"},
		"unknown filter": {func(s *conclavev1.RunSpec) { s.Filter = "zcdp" }, "filter"},
	} {
		t.Run(name, func(t *testing.T) {
			pb := roundtest.Spec()
			c.change(pb)
			_, err := New(pb)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestQuorumRoundsUp(t *testing.T) {
	for _, c := range []struct {
		share    float64
		teachers uint32
		want     uint32
	}{{0.5, 8, 4}, {0.5, 9, 5}, {0.7, 10, 7}, {0.1, 30, 3}, {1, 7, 7}, {1e-9, 5, 1}, {0.999999, 3, 3}} {
		if got := quorumOf(c.share, c.teachers); got != c.want {
			t.Errorf("%v of %d: got %d, want %d", c.share, c.teachers, got, c.want)
		}
	}
}

// A plan that the run cannot follow is refused when the run is opened.
func TestPlansAreChecked(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	fitBy := func(noise privacy.Event) func(*conclavev1.RunSpec) {
		return roundtest.Also(roundtest.Planned(runspec.Fit, noise, 1))
	}
	gammaBy := func(epsilon float64) func(*conclavev1.RunSpec) {
		return roundtest.Also(privacy.Planned{Kind: runspec.Fit, Mechanism: roundtest.Laplace(epsilon), Count: 1,
			Variant: privacy.NormGamma})
	}
	selects := func(epsilon float64, count int64) func(*conclavev1.RunSpec) {
		return roundtest.Also(roundtest.Planned(runspec.Scores, roundtest.Exponential(epsilon), count))
	}
	weighs := func(multiplier, rate float64, count int64) func(*conclavev1.RunSpec) {
		return roundtest.Also(roundtest.InStage(runspec.Sampled,
			roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(multiplier, rate), count)))
	}
	entry := func(change func(*conclavev1.Planned)) func(*conclavev1.RunSpec) {
		return func(s *conclavev1.RunSpec) { change(s.Plan[0]) }
	}
	votesBy := func(mechanism privacy.Event) func(*conclavev1.RunSpec) {
		return roundtest.Also(roundtest.Planned(runspec.Votes, mechanism, 1))
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
		"absurdly many": {entry(func(p *conclavev1.Planned) { p.Count = math.MaxUint64 }),
			"plan, entry 0: count is 18446744073709551615"},
		"no kind of noise": {fitBy(privacy.Event{}), third + `kind "" is unknown; use one of [gaussian`},
		"another kind": {fitBy(privacy.Event{Kind: "uniform", Epsilon: 1}),
			third + `kind "uniform" is unknown`},
		"gaussian without sigma": {fitBy(roundtest.Gaussian(0)), third + "gaussian event: sigma is 0"},
		"gaussian of NaN":        {fitBy(roundtest.Gaussian(nan)), third + "gaussian event: sigma is NaN"},
		"gaussian below zero":    {fitBy(roundtest.Gaussian(-1)), third + "gaussian event: sigma is -1"},
		"gaussian of epsilon too": {fitBy(privacy.Event{Kind: privacy.Gaussian, Sigma: 1, Sensitivity: 1, Epsilon: 1}),
			third + "gaussian event: epsilon does not belong"},
		"gaussian of no length": {fitBy(privacy.Event{Kind: privacy.Gaussian, Sigma: 1}),
			third + "gaussian event: sensitivity is 0"},
		"gaussian of length 2": {fitBy(privacy.Event{Kind: privacy.Gaussian, Sigma: 1, Sensitivity: 2}),
			"pays for a sensitivity of 2, and a privacy unit may be at up to 1 sites"},
		"laplace of sigma too": {fitBy(privacy.Event{Kind: privacy.Laplace, Epsilon: 1, Sigma: 1}),
			third + "laplace event: sigma does not belong"},
		"laplace without epsilon": {fitBy(roundtest.Laplace(0)), third + "laplace event: epsilon is 0"},
		"laplace below zero":      {fitBy(roundtest.Laplace(-1)), third + "laplace event: epsilon is -1"},
		"norm-gamma of NaN":       {gammaBy(nan), third + "laplace event: epsilon is NaN"},
		"infinite norm-gamma":     {gammaBy(inf), third + "laplace event: epsilon is +Inf"},
		"samples without a rate":  {weighs(2, 0, 5), third + "subsampled-gaussian event: rate is 0"},
		"rate above 1":            {weighs(2, 1.5, 5), third + "subsampled-gaussian event: rate is 1.5"},
		"rate of NaN":             {weighs(2, nan, 5), third + "subsampled-gaussian event: rate is NaN"},
		"samples without noise":   {weighs(0, 0.5, 5), third + "subsampled-gaussian event: noise_multiplier is 0"},
		"samples of no number":    {weighs(2, 0.5, 0), third + "sums over samples need a plan with counts"},
		"open votes of a plan":    {roundtest.Wholly, "filter pld prices the whole plan in advance"},
		"an open sum of a plan": {roundtest.Both(roundtest.Wholly, roundtest.Asks(roundtest.Embedding(3))),
			"give each entry a count"},
		"a plan with an open end": {roundtest.Both(roundtest.SamplesOf(2, 0.5, 5),
			roundtest.Also(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 0))), "give each entry a count"},
		"confident votes in a plan": {roundtest.Both(roundtest.SamplesOf(2, 0.5, 5),
			roundtest.Also(roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(5, 30, 20), 5))),
			"do not use confident-gnmax"},
		"a plan of nothing": {roundtest.Asks(), "plan has 0 entries"},
		"257 entries": {roundtest.Asks(slices.Repeat(privacy.Plan{roundtest.Planned(runspec.Votes,
			roundtest.GNMax(20), 0)}, 257)...), "plan has 257 entries"},
		"no kind":        {entry(func(p *conclavev1.Planned) { p.Kind = "" }), `plan, entry 0: kind is ""`},
		"kind of a line": {entry(func(p *conclavev1.Planned) { p.Kind = "votes\n" }), "plan, entry 0: kind is"},
		"capital stage":  {entry(func(p *conclavev1.Planned) { p.Stage = "Fit" }), `plan, entry 0: stage is "Fit"`},
		"no mechanism":   {entry(func(p *conclavev1.Planned) { p.Mechanism = nil }), "plan, entry 0: kind"},
		"a count inside": {entry(func(p *conclavev1.Planned) { p.Mechanism.Count = 1 }),
			"plan, entry 0: mechanism has counts of its own"},
		"asked inside": {entry(func(p *conclavev1.Planned) { p.Mechanism.Asked = 1 }),
			"plan, entry 0: mechanism has counts of its own"},
		"a foreign variant": {entry(func(p *conclavev1.Planned) { p.Variant = privacy.NormGamma }),
			`variant "norm-gamma" does not belong to gnmax`},
		// This noise has a price but cannot be drawn.
		"wide votes":         {votesBy(roundtest.GNMax(1e12)), third + "gnmax: "},
		"wide laplace votes": {votesBy(roundtest.LNMax(1e-13)), third + "lnmax: "},
		"a wide threshold": {votesBy(roundtest.ConfidentMax(5, 1e12, 20)),
			third + "confident-gnmax: threshold test: "},
		"a wide confident answer": {votesBy(roundtest.ConfidentMax(5, 30, 1e12)), third + "confident-gnmax: answer: "},
		"narrow votes":            {votesBy(roundtest.GNMax(1e-9)), third + "gnmax: "},
		"wide sums": {roundtest.Also(roundtest.Planned(runspec.GradientSums, roundtest.Gaussian(1e10),
			0)), third + "gaussian sum: "},
		"narrow sums": {roundtest.Also(roundtest.Planned(runspec.GradientSums, roundtest.Gaussian(1e-12),
			0)), third + "gaussian sum: "},
		"wide sums of samples":    {weighs(1e10, 0.5, 5), third + "gaussian sum: "},
		"samples of next to none": {weighs(2, 1e-30, 5), "sampling rate is 1e-30; it must be"},
		"wide counts":             {roundtest.Shares(1e-12), "plan, entry 1: epsilon 1e-12 of class-counts: "},
		"wide selections":         {selects(1e-12, 5), third + "exponential: "},
	} {
		pb := roundtest.Spec()
		c.change(pb)
		if _, err := New(pb); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), pb.Name) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		} else if fault.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, fault.Code(err))
		}
	}
}

// A plan has everything that the run may ask, training and stages together, and survives storage unchanged. Its cost
// is known beforehand if each entry has a count.
func TestPlansOfStages(t *testing.T) {
	counts := roundtest.Planned(runspec.ClassCounts, roundtest.Laplace(0.1), 1)
	selections := roundtest.InStage(runspec.Selections,
		roundtest.Planned(runspec.Scores, roundtest.Exponential(0.25), 7))
	training := roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(2, 0.25), 5)
	weighing := roundtest.InStage(runspec.Sampled,
		roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(3, 0.1), 4))
	again := roundtest.InStage(runspec.Sampled,
		roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(2, 0.25), 4))
	other := roundtest.InStage(runspec.Sampled,
		roundtest.Planned(runspec.Discriminator, roundtest.Subsampled(3, 0.25), 4))
	votes := roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 9))
	pure := roundtest.InStage(runspec.Coefficients, roundtest.Planned(runspec.Fit, roundtest.Laplace(0.5), 1))
	cheap := privacy.Planned{Kind: runspec.Fit, Stage: runspec.Coefficients, Mechanism: roundtest.Laplace(0.1),
		Count: 1, Variant: privacy.NormGamma}
	noisy := roundtest.InStage(runspec.Coefficients, roundtest.Planned(runspec.Fit, roundtest.Gaussian(4), 1))
	confident := roundtest.Planned(runspec.Votes, roundtest.ConfidentMax(5, 30, 20), 6)
	for name, c := range map[string]struct {
		plan   privacy.Plan
		filter privacy.Filter
		want   []privacy.Event
	}{
		"selections beside open votes": {privacy.Plan{roundtest.Planned(runspec.Votes, roundtest.GNMax(20), 0),
			selections}, "", selections.Worst(7)},
		"confident votes": {privacy.Plan{confident, selections}, "",
			slices.Concat(confident.Worst(6), selections.Worst(7))},
		"samples of both kinds": {privacy.Plan{counts, training, weighing, selections}, privacy.FilterPLD,
			slices.Concat(counts.Worst(1), training.Worst(5), weighing.Worst(4), selections.Worst(7))},
		"samples of one kind": {privacy.Plan{training, again}, privacy.FilterPLD, training.Worst(9)},
		"one rate and two noises": {privacy.Plan{training, other}, privacy.FilterPLD,
			slices.Concat(training.Worst(5), other.Worst(4))},
		"samples and pure noise": {privacy.Plan{training, pure}, privacy.FilterPLD,
			slices.Concat(training.Worst(5), pure.Worst(1))},
		"samples and gaussian noise": {privacy.Plan{training, noisy}, privacy.FilterPLD,
			slices.Concat(training.Worst(5), noisy.Worst(1))},
		"votes and samples": {privacy.Plan{counts, votes, weighing}, privacy.FilterPLD,
			slices.Concat(counts.Worst(1), votes.Worst(9), weighing.Worst(4))},
		"votes, selections and a fit": {privacy.Plan{votes, selections, pure}, privacy.FilterPLD,
			slices.Concat(votes.Worst(9), selections.Worst(7), pure.Worst(1))},
		"equal pure noises add up": {privacy.Plan{counts, votes, cheap}, privacy.FilterPLD,
			slices.Concat(roundtest.Times(2, roundtest.Laplace(0.1)), votes.Worst(9))},
		"stages of an earlier run": {privacy.Plan{selections, pure}, privacy.FilterPLD,
			slices.Concat(selections.Worst(7), pure.Worst(1))},
	} {
		pb := roundtest.Spec()
		roundtest.Asks(c.plan...)(pb)
		pb.Filter = string(c.filter)
		raw, err := proto.Marshal(pb)
		testkit.Must(t, err)
		got, err := Parse(raw)
		testkit.Must(t, err)
		if diff := cmp.Diff(c.plan, got.Plan); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(c.want, got.Plan.Events()); diff != "" {
			t.Errorf("%s: it costs %s", name, diff)
		}
		if got.Budget.Filter != c.filter || c.filter != "" && !got.Plan.Fixed() {
			t.Errorf("%s: filter %q of a plan that is fixed: %v", name, got.Budget.Filter, got.Plan.Fixed())
		}
	}
}
