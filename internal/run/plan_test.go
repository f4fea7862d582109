package run

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A calibrated plan fits the budget and uses it up: neither a thousandth less noise nor one more release would fit. A
// start costs its share alone.
func TestPlansUseTheBudgetAndNoMore(t *testing.T) {
	all, some := []float64{0.1, 1, 10}, []float64{0.3, 1, 10}
	for name, c := range map[string]struct {
		schema, base, change string
		kind                 privacy.Kind
		epsilons             []float64
	}{
		"gnmax": {schemaText, votes, "teachers: 500\npategan: {mechanism: gnmax, labels: 64}", privacy.GNMax, all},
		"gnmax, more": {schemaText, votes, "teachers: 500\npategan: {mechanism: gnmax, labels: 1000}", privacy.GNMax,
			all},
		"lnmax": {schemaText, votes, "teachers: 500\npategan: {mechanism: lnmax, labels: 64}", privacy.LNMax, all},
		"lnmax, more": {schemaText, votes, "teachers: 500\npategan: {mechanism: lnmax, labels: 1000}", privacy.LNMax,
			all},
		"confident": {schemaText, votes, "teachers: 500\npategan: {mechanism: confident-gnmax, labels: 64}",
			privacy.ConfidentGNMax, all},
		"confident, more": {schemaText, votes, "teachers: 500\npategan: {mechanism: confident-gnmax, labels: 1000}",
			privacy.ConfidentGNMax, all},

		"sums":             {wideText, gradients, "", privacy.Gaussian, some},
		"projected sums":   {wideText, gradients, "gpate: {directions: 2}", privacy.Gaussian, some},
		"histograms":       {wideText, gradients, histograms, privacy.GNMax, some},
		"winners":          {wideText, gradients, "gpate: {answers: winner, mechanism: gnmax}", privacy.GNMax, some},
		"confident winner": {wideText, gradients, winners, privacy.ConfidentGNMax, some},
		"confident counts": {wideText, gradients, "gpate: {answers: histogram, mechanism: confident-gnmax}",
			privacy.ConfidentGNMax, some},
		"rounds are chosen": {wideText, gradients, "gpate: {rounds: 0, records: 0}", privacy.Gaussian, some},
		"one record, one round": {wideText, gradients, "gpate: {rounds: 1, records: 1, directions: 1}",
			privacy.Gaussian, some},

		"samples":     {wideText, steps, "", privacy.SubsampledGaussian, []float64{0.3, 10}},
		"all records": {wideText, steps, "dpgan: {rate: 1}", privacy.SubsampledGaussian, []float64{0.3}},
		"one step":    {wideText, steps, "dpgan: {steps: 1}", privacy.SubsampledGaussian, []float64{0.3}},
		"a batch": {wideText, steps, "dpgan: {rate: 0, batch: 10, units: 200}", privacy.SubsampledGaussian,
			[]float64{0.3}},
		"steps are chosen": {wideText, "pipeline: dpgan\nwarm_start: {embed: 0}", "", privacy.SubsampledGaussian,
			[]float64{0.3}},
		"samples of images": {imageSchema, steps, "", privacy.SubsampledGaussian, []float64{0.3, 10}},

		"embedding":           {wideText, embedding, "", privacy.Gaussian, all},
		"of no label":         {unlabelled, embedding, "", privacy.Gaussian, all},
		"of one column":       {single, embedding, "", privacy.Gaussian, all},
		"of images":           {imageSchema, embedding, "", privacy.Gaussian, all},
		"features are chosen": {wideText, "pipeline: embed", "", privacy.Gaussian, all},

		"a start":             {wideText, votes, "warm_start: {embed: 0.05}", privacy.GNMax, []float64{1}},
		"a large start":       {wideText, votes, "warm_start: {embed: 0.7}", privacy.GNMax, []float64{1}},
		"a start of sums":     {wideText, gradients, "warm_start: {embed: 0.05}", privacy.Gaussian, []float64{1}},
		"a large one of sums": {wideText, gradients, "warm_start: {embed: 0.7}", privacy.Gaussian, []float64{1}},
		"a start of counts": {wideText, gradients, "warm_start: {embed: 0.7}\n" + histograms, privacy.GNMax,
			[]float64{1}},
		"a start of samples": {wideText, steps, "warm_start: {embed: 0.05}", privacy.SubsampledGaussian,
			[]float64{1}},
		"a large one of samples": {wideText, steps, "warm_start: {embed: 0.7}", privacy.SubsampledGaussian,
			[]float64{1}},
	} {
		if c.kind == privacy.SubsampledGaussian && testing.Short() {
			continue // one thread of arithmetic, and slow with a race detector
		}
		for _, epsilon := range c.epsilons {
			t.Run(fmt.Sprintf("%s, epsilon %g", name, epsilon), func(t *testing.T) {
				s := runOf(t, c.base, c.change)
				s.Privacy.Epsilon = epsilon
				p, err := NewPlan(s, partitiontest.Schema(t, c.schema))
				testkit.Must(t, err)
				checkPrice(t, p, privacy.Budget{Epsilon: epsilon, Delta: 1e-5, Filter: p.Filter()}, c.kind)
			})
		}
	}
}

// checkPrice checks that a whole plan, and no more, fits a budget.
func checkPrice(t *testing.T, p *plan.Plan, budget privacy.Budget, kind privacy.Kind) {
	t.Helper()
	over := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, privacy.ErrOverBudget) {
			t.Errorf("%s is admitted too (%v)", what, err)
		}
	}
	spent := p.First().Events()
	if p.Start != nil {
		most := cmp.Or(p.Start.Share, 1) * budget.Epsilon
		alone, err := privacy.Account(spent, budget.Delta)
		if err != nil || alone.Epsilon > most || alone.Epsilon < 0.999*most || p.ClassShares.Kind != "" {
			t.Errorf("by itself the start costs %v of %v (%v)", alone.Epsilon, most, err)
		}
		claim, err := privacy.Account(p.Planned().Events(), budget.Delta)
		if err != nil || claim.Epsilon > budget.Epsilon || claim.Epsilon < 0.97*budget.Epsilon {
			t.Errorf("all of it costs %v of %v (%v)", claim.Epsilon, budget.Epsilon, err)
		}
	}
	switch planned := p.Planned(); {
	case p.Rounds == 0:
		_, err := budget.Admit(nil, spent)
		testkit.Must(t, err)
		spent[0].Sigma *= 0.999
		_, err = budget.Admit(nil, spent)
		over("less noise", err)
	case p.Sampled():
		_, err := planned.Check(budget)
		testkit.Must(t, err)
		if p.Training.Mechanism.Rate == 1 || p.Rounds == 1 { // quick to account
			planned[1].Mechanism.NoiseMultiplier *= 0.997
			_, err := planned.Check(budget)
			over("less noise", err)
		}
	default:
		for left := p.Queries; left > 0; left -= p.PerRound { // as the ledger charges it
			each := p.Releases(min(left, p.PerRound))
			round := p.Training.Worst(each)
			if round[0].Kind != kind || round[0].Count+round[0].Asked != each {
				t.Fatalf("a round of %d releases costs %+v", each, round)
			}
			claim, err := budget.Admit(spent, round)
			testkit.Must(t, err)
			if claim.Epsilon > budget.Epsilon {
				t.Errorf("claim %v is above the budget %v", claim.Epsilon, budget.Epsilon)
			}
			spent = privacy.Merge(append(spent, round...))
		}
		if p.Noise() > privacy.MinSigma || p.Sums() || kind == privacy.LNMax {
			_, err := budget.Admit(spent, p.Training.Worst(1))
			over("one release more", err)
		}
	}
}

// The plan follows options that are set by hand.
func TestPlansFollowTheSpec(t *testing.T) {
	shares := privacy.Planned{Kind: runspec.ClassCounts, Count: 1,
		Mechanism: privacy.Event{Kind: privacy.Laplace, Epsilon: 0.05}}
	of := func(kind, variant string, n int64, m privacy.Event) privacy.Planned {
		return privacy.Planned{Kind: kind, Variant: variant, Count: n, Mechanism: m}
	}
	for name, c := range map[string]struct {
		schema, base, change string
		rounds, each         int
		want                 privacy.Planned
	}{
		"votes": {schemaText, votes, "pategan: {labels: 130, queries: 64, noise: 77}", 3, 64,
			of(runspec.Votes, privacy.Histogram, 130, privacy.Event{Kind: privacy.GNMax, Sigma: 77})},
		"winners": {schemaText, votes, "pategan: {labels: 64, noise: 77, release: winner}", 1, 64,
			of(runspec.Votes, "", 64, privacy.Event{Kind: privacy.GNMax, Sigma: 77})},
		"lnmax": {schemaText, votes, "pategan: {labels: 1, noise: 0.01, mechanism: lnmax}", 1, 64,
			of(runspec.Votes, privacy.Histogram, 1, privacy.Event{Kind: privacy.LNMax, Lambda: 0.01})},
		"confident": {schemaText, votes, "teachers: 200\npategan: {labels: 64, noise: 50, mechanism: " +
			"confident-gnmax, threshold: 0.7, threshold_noise: 2}", 1, 64,
			of(runspec.Votes, privacy.Histogram, 64,
				privacy.Event{Kind: privacy.ConfidentGNMax, Sigma2: 50, Sigma1: 100, Threshold: 140})},
		"sums": {wideText, gradients, "gpate: {noise: 7.5}", 5, 12 * 6,
			of(runspec.GradientSums, "", 5, privacy.Event{Kind: privacy.Gaussian, Sigma: 7.5, Sensitivity: 1})},
		"histograms": {wideText, gradients, "gpate: {answers: histogram, mechanism: gnmax, directions: 3, noise: 90}",
			5, 36,
			of(runspec.GradientVotes, privacy.Histogram, 180, privacy.Event{Kind: privacy.GNMax, Sigma: 90})},
		"confident winners": {wideText, gradients, "gpate: {answers: winner, mechanism: confident-gnmax, directions: " +
			"3, noise: 80, threshold: 0.75, threshold_noise: 2}", 5, 36,
			of(runspec.GradientVotes, "", 180,
				privacy.Event{Kind: privacy.ConfidentGNMax, Sigma2: 80, Sigma1: 160, Threshold: 300})},
		"a batch": {wideText, steps, "dpgan: {rate: 0, batch: 10, units: 200, noise: 50}", 30, 0,
			of(runspec.Discriminator, "", 30,
				privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.05, NoiseMultiplier: 50})},
		"an embedding": {wideText, embedding, "embed: {noise: 7.25}", 0, 0,
			of(runspec.Embedding, "", 1, privacy.Event{Kind: privacy.Gaussian, Sigma: 7.25, Sensitivity: 1})},
	} {
		p, err := NewPlan(runOf(t, c.base, c.change), partitiontest.Schema(t, c.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		first, want := shares, privacy.Plan{c.want}
		if c.base == votes {
			first.Mechanism.Epsilon = 0.02
		}
		if c.rounds > 0 {
			want = privacy.Plan{first, c.want}
		}
		testkit.Same(t, name, want, p.Planned())
		if c.each == 0 {
			c.each = p.PerRound
		}
		if p.Rounds != c.rounds || p.PerRound != c.each || p.Classes != 2 ||
			!p.Sums() && p.Rounds > 0 && p.Queries != int(c.want.Count) || p.Sums() && p.Queries != c.rounds*c.each {
			t.Errorf("%s: %d queries in %d rounds of %d", name, p.Queries, p.Rounds, p.PerRound)
		}
	}
	p, err := NewPlan(runOf(t, votes, "teachers: 200"), partitiontest.Schema(t, schemaText))
	if want := pategan.LabelsFor(1, 200); err != nil || p.Queries != want {
		t.Errorf("%+v (%v), want %d labels, chosen from epsilon and teachers", p, err, want)
	}
}

// A sum has a number for each weight of the discriminator, or for each feature.
func TestSumsAreAsLongAsWhatTheyAreOf(t *testing.T) {
	for _, text := range []string{wideText, imageSchema} {
		schema := partitiontest.Schema(t, text)
		e := encode.New(schema)
		s := runOf(t, steps, "dpgan: {noise: 50}")
		net, err := discriminator.New(runfile.Section[dpgan.Options](s).ChosenFor(e).Spec(e, 2),
			rand.New(rand.NewPCG(0, 0)))
		testkit.Must(t, err)
		if p, err := NewPlan(s, schema); err != nil || p.PerRound != net.Parameters() {
			t.Errorf("sums of %d numbers, %d weights (%v)", p.PerRound, net.Parameters(), err)
		}
	}
	for text, classes := range map[string]int{wideText: 2, imageSchema: 2, unlabelled: 1, single: 1} {
		schema := partitiontest.Schema(t, text)
		e, s := encode.New(schema), runOf(t, embedding)
		p, err := NewPlan(s, schema)
		testkit.Must(t, err)
		o := runfile.Section[embed.Options](s).ChosenFor(e, classes, p.Start.Planned.Mechanism.Sigma)
		if q, err := o.Question(e, classes); err != nil || p.Start.Entries != q.Entries || p.Classes != classes {
			t.Errorf("%d numbers of %d classes, a question of %d (%v)", p.Start.Entries, p.Classes, q.Entries, err)
		}
	}
}

func TestThePlanIsWhatTheAggregatorIsTold(t *testing.T) {
	schema := partitiontest.Schema(t, wideText)
	for _, c := range []struct {
		base, change, filter string
		coin                 bool
		quorum, deadline     float64
	}{
		{votes, "privacy: {unit: patient}\npategan: {noise: 100}", "", true, 0.9, 30},
		{gradients, "gpate: {quorum: 0.8, deadline: 77, noise: 100}", "", false, 0.8, 77},
		{gradients, "gpate: {noise: 100}\nwarm_start: {embed: 0.3}", "", false, 0.9, 300},
		{steps, "dpgan: {noise: 50}", "pld", false, 0.9, 60},
		{embedding, "", "", false, 0.9, 60},
		{votes, "pategan: {noise: 100, labels: 64}\npost: [pgb]", "", false, 0.9, 30},
		{votes, "pategan: {noise: 100, labels: 64}\nweights: logreg-noised\nweighting: {noise: laplace}", "pld", false,
			0.9, 30},
	} {
		s := runOf(t, c.base, c.change)
		p, err := NewPlan(s, schema)
		testkit.Must(t, err)
		got := RunSpec(p, s, schema, "data", c.coin)
		if told, err := runspec.Plan(got); err != nil || !slices.Equal(told, p.Planned()) {
			t.Errorf("%s: told %v, planned %v (%v)", s.Pipeline, told, p.Planned(), err)
		}
		want := &conclavev1.RunSpec{
			Name: "r1", Dataset: "data", Pipeline: s.Pipeline, SchemaSha256: schema.SHA256, Epsilon: 1, Delta: 1e-5,
			Unit: s.Privacy.Unit, Guarantee: "data-independent", Teachers: uint32(s.Teachers), Quorum: c.quorum,
			DeadlineSeconds: c.deadline, CoinVotes: c.coin, Filter: c.filter, Plan: got.Plan,
		}
		if !proto.Equal(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	}
}
