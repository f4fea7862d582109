package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// recorder keeps the first round that is asked after that of the class counts.
type recorder struct {
	asker
	round *conclavev1.Round
}

var errRecorded = errors.New("recorded")

func (r *recorder) Ask(_ context.Context, _ string, round *conclavev1.Round) (*conclavev1.Release, error) {
	if round.Kind == runspec.ClassCounts {
		return &conclavev1.Release{Teachers: 1, Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{
			Values: []int64{1 << 20, 1 << 20}, Scale: plan.CountScale,
		}}}, nil
	}
	r.round, round.Run = round, r.run
	return nil, errRecorded
}

// asked is the first question of a run after the class counts.
func asked(t *testing.T, s *runfile.Spec, schema *partition.Schema, p *plan.Plan) *conclavev1.Round {
	t.Helper()
	r := &recorder{asker: asker{run: s.Name, plan: p, teachers: s.Teachers}}
	student, err := s.Training(schema).Student(p)
	if err == nil {
		err = startWith(student, s, schema, p, r, func(int, int) {})
	}
	testkit.Must(t, err)
	nothing := func() error { return nil }
	err = student.Learn(t.Context(), r, p.Rounds, nothing, func(pipeline.Progress) {})
	if !errors.Is(err, errRecorded) {
		t.Fatalf("asked nothing: %v", err)
	}
	return r.round
}

// A forecast has the run's charges, and the messages that leave and reach a node: an upper bound on each, and a tight
// one.
func TestForecasts(t *testing.T) {
	for name, c := range map[string]struct {
		schema, base, change string
		leaving              string // separates the messages of the runs
	}{
		"votes": {wideText, votes, "", "class counts, votes"},
		"lnmax": {schemaText, votes, "pategan: {mechanism: lnmax, labels: 100}", "class counts, votes"},
		"confident votes": {schemaText, votes, "pategan: {mechanism: confident-gnmax, labels: 100}",
			"class counts, votes"},
		"votes after a start": {wideText, votes, "warm_start: {embed: 0.2}", "embedding sum, votes"},

		"gradients":           {wideText, gradients, "", "class counts, gradients"},
		"votes on gradients":  {wideText, gradients, histograms, "class counts, votes"},
		"winners":             {wideText, gradients, winners, "class counts, votes"},
		"gradients of images": {imageSchema, gradients, "gpate: {teacher: {cosines: 2}}", "class counts, gradients"},
		"votes on images": {imageSchema, gradients, "gpate: {answers: winner, directions: 3, teacher: {cosines: 2}}",
			"class counts, votes"},
		"gradients from a start": {wideText, gradients, "warm_start: {embed: 0.3}", "embedding sum, gradients"},

		"steps":       {wideText, steps, "", "class counts, gradient sums"},
		"all records": {wideText, steps, "dpgan: {rate: 1}", "class counts, gradient sums"},
		"set by hand": {wideText, steps, "dpgan: {noise: 50}", "class counts, gradient sums"},
		"images":      {imageSchema, steps, "", "class counts, gradient sums"},
		"convolutions": {imageSchema, steps, "dpgan: {discriminator: {kind: convolution}}",
			"class counts, gradient sums"},
		"standard": {wideText, steps, "dpgan: {discriminator: {features: standard, classes: told, loss: logistic}}",
			"class counts, gradient sums"},
		"images from a start": {imageSchema, steps, "warm_start: {embed: 0.3}", "embedding sum, gradient sums"},

		"an embedding":     {wideText, embedding, "", "embedding sum"},
		"one of images":    {imageSchema, embedding, "", "embedding sum"},
		"one without much": {unlabelled, embedding, "embed: {noise: 300}", "embedding sum"},

		"boosted":      {schemaText, votes, "post: [pgb]", "class counts, votes, score sums"},
		"rejected":     {schemaText, votes, "post: [drs]", "class counts, votes"},
		"weighed":      {schemaText, votes, "weights: logreg-debiased", "class counts, votes, derivatives"},
		"weighed free": {schemaText, votes, "weights: discriminator", "class counts, votes"},
		"weighed by pure noise": {schemaText, votes, "weights: logreg-noised\nweighting: {noise: laplace}",
			"class counts, votes, derivatives"},
		"all stages": {schemaText, votes, "post: [pgb]\nweights: dp-mlp", "class counts, votes, score sums, " +
			"weighting sums"},
	} {
		if testing.Short() && (c.base == steps || strings.Contains(c.change, "weights")) {
			continue // one thread of arithmetic, and slow with a race detector
		}
		t.Run(name, func(t *testing.T) {
			s, schema := runOf(t, c.base, c.change), partitiontest.Schema(t, c.schema)
			p, err := NewPlan(s, schema)
			testkit.Must(t, err)
			const teachers = 15
			f, err := NewForecast(s, schema, Node{Dataset: "d", Site: "north", Node: "1", Teachers: teachers})
			testkit.Must(t, err)
			checkForecast(t, f, p, strings.Contains(c.change, "noise: "))
			var names []string
			for _, m := range f.Leaving {
				names = append(names, m.Name)
				if m.Name != "refusal" && (m.Times < 1 || m.Bytes < 4 || m.Content == "") {
					t.Errorf("leaving %+v", m)
				}
			}
			if got, want := strings.Join(names, ", "), "hello, permit, "+c.leaving+", refusal"; got != want {
				t.Errorf("leaving %s, want %s", got, want)
			}
			if (f.Unanimous > 0) != strings.Contains(c.leaving, "votes") {
				t.Errorf("%d teachers must agree", f.Unanimous)
			}
			within := func(m Message, times int, real proto.Message, slack int) {
				t.Helper()
				if n := proto.Size(real); m.Times != times || m.Bytes < n || m.Bytes > n+slack {
					t.Errorf("%+v is forecast, a message has %d bytes", m, n)
				}
			}
			if p.Start != nil { // a million units at a node, with the largest features
				n := p.Start.Entries
				within(f.Leaving[2], 1, sums(s, n, 1_000_000*embed.Bound(p.Start.Planned.Mechanism.Sigma)), 16+2*n)
				if c.base == embedding || c.base == steps {
					within(f.Arriving[0], 1, asked(t, s, schema, &plan.Plan{Start: p.Start}), 8)
				}
				if f.Embedding != n || !strings.Contains(f.Leaving[2].Content, fmt.Sprint(n)) {
					t.Errorf("%d numbers: %+v", n, f.Leaving[2])
				}
			} else if c.base == steps { // students of others are fitted before they ask
				within(f.Arriving[0], p.Rounds, asked(t, s, schema, p), 8)
			} else if c.base == gradients {
				e := encode.New(schema)
				o := runfile.Section[gpate.Options](s).ChosenFor(e)
				if n := 4 * e.Width() * (o.Records + o.Teacher.Training); f.Arriving[0].Bytes < n ||
					f.Arriving[0].Bytes > n+1000 {
					t.Errorf("rounds of %d bytes hold %d bytes of records", f.Arriving[0].Bytes, n)
				}
			}
			switch n := p.PerRound; {
			case p.Rounds == 0:
			case p.Sampled():
				within(f.Leaving[3], p.Rounds, sums(s, n, 1_000_000*pipeline.DiscriminatorBound), 8+2*n)
			case p.Sums():
				within(f.Leaving[3], p.Rounds, sums(s, n, teachers*gpate.Bound), 8)
			default:
				within(f.Leaving[3], p.Rounds, packedVotes(s, n, teachers), 8)
			}
		})
	}
}

// checkForecast compares a forecast with the plan.
func checkForecast(t *testing.T, f *Forecast, p *plan.Plan, noiseIsSet bool) {
	t.Helper()
	if f.Rounds != p.Rounds || f.Queries != p.Queries || f.Planned != (p.Filter() == privacy.FilterPLD) {
		t.Errorf("forecast %+v of plan %+v", f, p)
	}
	if most := int64(p.Queries + p.PerRound); f.Admitted < int64(p.Queries) || f.Admitted > most ||
		p.Sampled() && f.Admitted != int64(p.Queries) {
		t.Errorf("%d queries are admitted, %d planned", f.Admitted, p.Queries)
	}
	claim, err := privacy.Account(f.Events, f.Delta)
	if err != nil || f.Claim.Epsilon != claim.Epsilon || !(f.Claim.Epsilon <= f.FilterEpsilon*(1+1e-9)) ||
		!(f.FilterEpsilon <= f.Epsilon) ||
		p.Start == nil && len(p.Stages) == 0 && !noiseIsSet && f.FilterEpsilon < 0.99*f.Epsilon {
		t.Errorf("claim %v, filter %v, budget %v (%v)", f.Claim.Epsilon, f.FilterEpsilon, f.Epsilon, err)
	}
	want := p.Others()
	if p.Rounds > 0 {
		want = append(want, p.Training.Worst(p.Releases(p.Queries))...)
	}
	if !slices.Equal(f.Events, want) {
		t.Errorf("the events %v are forecast, %v planned", f.Events, want)
	}
}

// sums is a node's sum of n numbers with the largest values.
func sums(s *runfile.Spec, n int, most int64) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Attempt: 3, Message: &conclavev1.WorkRequest_Sum{
		Sum: &conclavev1.Sum{Run: s.Name, Round: 1, Values: slices.Repeat([]int64{-most}, n)},
	}}
}

// packedVotes are the votes of teachers, with one bit for real or fake and four for ten bins.
func packedVotes(s *runfile.Spec, queries, teachers int) *conclavev1.WorkRequest {
	bits := 1
	if s.Pipeline == "gpate" {
		bits = 4
	}
	return &conclavev1.WorkRequest{Attempt: 3, Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
		Run: s.Name, Round: 1, Teachers: uint32(teachers), Queries: uint32(queries),
		Packed: make([]byte, teachers*((queries*bits+7)/8)),
	}}}
}

// All votes of the example are admitted; noise for only some of the rounds ends with the budget.
func TestWhatAForecastAdmits(t *testing.T) {
	s, err := runfile.Load("../../examples/flchain/run.yaml")
	testkit.Must(t, err)
	schema, err := s.LoadSchema()
	testkit.Must(t, err)
	f, err := NewForecast(s, schema, Node{Dataset: "flchain", Site: "north", Node: "1", Teachers: s.Teachers / 2})
	testkit.Must(t, err)
	if n := f.Events[1].Count; n != int64(f.Queries) || f.Admitted != n {
		t.Errorf("%d queries are charged, %d asked, %d admitted", n, f.Queries, f.Admitted)
	}
	if _, err := NewForecast(s, schema, Node{Teachers: s.Teachers + 1}); err == nil {
		t.Error("a node with more teachers than the run was forecast")
	}

	f, err = NewForecast(runOf(t, votes, "pategan: {noise: 100, labels: 1000}"), partitiontest.Schema(t, schemaText),
		Node{Teachers: 1})
	if err != nil || f.Admitted >= 1000 || f.Admitted < 100 || f.Events[1].Count != f.Admitted || f.Claim.Epsilon > 1 {
		t.Errorf("noise for a part of the labels: %+v (%v)", f, err)
	}
	f, err = NewForecast(runOf(t, gradients, "gpate: {noise: 6, rounds: 1000}"), partitiontest.Schema(t, wideText),
		Node{Teachers: 1})
	testkit.Must(t, err)
	if n := f.Events[1].Count; n >= 1000 || n < 1 || f.Admitted != n*12*6 || f.Claim.Epsilon > 1 {
		t.Errorf("%d sums are charged, %d numbers admitted, claim %v", n, f.Admitted, f.Claim.Epsilon)
	}
	if _, err := NewForecast(runOf(t, votes, "pategan: {noise: 0.5}"), partitiontest.Schema(t, schemaText),
		Node{Teachers: 1}); err == nil || !strings.Contains(err.Error(), "pategan.noise") {
		t.Errorf("noise that cannot be drawn: %v", err)
	}
}
