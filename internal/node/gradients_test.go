package node

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/projection"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const gradientVote = conclavev1.TeacherSpec_VOTE_GRADIENT

// sumRound asks for a sum of gradients at the records of voteRound.
func sumRound(run string, number uint64, clip float64) *conclavev1.Round {
	v := voteRound(run, number).GetVote()
	v.Teacher.Vote = gradientVote
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Gradients{Gradients: &conclavev1.GradientSum{
			Teacher: v.Teacher, Training: v.Training, TrainingClasses: v.TrainingClasses, Queries: v.Queries, QueryClasses: v.QueryClasses,
			Clip: clip, Bound: 1 << 16,
		}},
	}}}
}

// gradientRound asks for votes on gradients at the same records.
func gradientRound(run string, number uint64) *conclavev1.Round {
	r := voteRound(run, number)
	q := r.GetVote()
	q.Teacher.Vote, q.AnswerClasses = gradientVote, 10
	q.Gradient = &conclavev1.Projection{Directions: 3, Seed: number, Clip: 0.05}
	return r
}

func gradientSumOf(t testing.TB, n *Node, r *conclavev1.Round) []int64 {
	t.Helper()
	m := ask(t, n, r)
	if m.GetSum() == nil {
		t.Fatalf("answered with %v", m)
	}
	return m.GetSum().Values
}

// Three teachers with one record each, through real nodes and a real aggregator with
// hardly any noise, by hand.
//
// A record has one number, 0.9, 0.8 and 0.1; the generated one is 0.5. A teacher is
// logistic regression from weights of 0, so its first gradient by its weight is (0.5 -
// record)/4 and Adam's first step is the rate, 0.1, against its sign: weights 0.1, 0.1
// and -0.1, and no bias. Its step at a record x is w sigmoid(-w x): at 0.5 and 0.25
// 0.04875026 and 0.04937500 for the first two, -0.05124974 and -0.05062500 for the third.
func TestThreeTeachersByHand(t *testing.T) {
	schema := mustSchema(t, "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n")
	address, folder := startAggregator(t, schema.SHA256)
	for i, x := range []float64{0.9, 0.8, 0.1} {
		table := partition.NewTable(schema)
		testkit.Must(t, table.Append([]float64{x}, ""))
		c := smallConfig(t, 1)
		c.Aggregator, c.Node, c.TLS = address, fmt.Sprint("n", i), certs.IssuedFiles(folder, certs.RoleNode, "north")
		run(t, start(t, c, table))
	}
	config := student.DefaultConfig()
	config.Aggregator, config.Dataset, config.Run = address, "d", "run.yaml"
	config.TLS = certs.IssuedFiles(folder, certs.RoleStudent, "student")
	client, err := student.Dial(config, zap.NewNop())
	testkit.Must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	open := func(name string, m *conclavev1.Mechanism) {
		_, err := client.OpenRun(ctx, &conclavev1.RunSpec{
			Name: name, Dataset: "d", Pipeline: "gpate", SchemaSha256: schema.SHA256, Epsilon: 4e5, Delta: 1e-5,
			Unit: "record", Guarantee: "data-independent", Teachers: 3, Quorum: 1, DeadlineSeconds: 30, Mechanism: m,
		})
		testkit.Must(t, err)
	}
	teacher := &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: gradientVote, Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
		Classes: 1, Steps: 1, Batch: 8, LearningRate: 0.1,
	}
	column := func(x ...float32) *conclavev1.Tensor {
		return &conclavev1.Tensor{Shape: []uint32{uint32(len(x)), 1}, Data: nn.Bytes(x)}
	}

	// The direction of seed 42 is 1.4923: the steps become 0.0728 and 0.0737, twice, and
	// -0.0765 and -0.0755. Of four bins in (-0.1, 0.1) these are the last and the first.
	// The noise of scale 1/40 changes one of the eight counts with a chance below 1e-15.
	const seed = 42
	p, err := projection.New(projection.Spec{Features: 1, Directions: 1, Clip: 0.1, Bins: 4}, seed)
	testkit.Must(t, err)
	direction := []float32{1}
	if p.Project(direction, direction, 1); math.Abs(float64(direction[0])-1.4923) > 1e-4 {
		t.Fatalf("direction %v; the example is computed for another", direction[0])
	}
	open("votes", &conclavev1.Mechanism{Kind: conclavev1.Mechanism_KIND_LNMAX, Lambda: 40, WholeHistogram: true})
	release, err := client.Ask(ctx, &conclavev1.Round{Run: "votes", Question: &conclavev1.Round_Vote{Vote: &conclavev1.VoteQuestion{
		Teacher: teacher, Training: column(0.5), TrainingClasses: []uint32{0}, Queries: column(0.5, 0.25), QueryClasses: []uint32{0, 0},
		AnswerClasses: 4, Gradient: &conclavev1.Projection{Directions: 1, Seed: seed, Clip: 0.1},
	}}}, nil)
	testkit.Must(t, err)
	if got, want := release.GetVotes().Histogram, []int64{1, 0, 0, 2, 1, 0, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("histogram %v, want %v", got, want)
	}
	if got := release.GetVotes().Labels; !slices.Equal(got, []int32{3, 3}) {
		t.Errorf("winners %v, want the last bins", got)
	}
	if got := p.Midpoint(3); math.Abs(float64(got)-0.075) > 1e-7 {
		t.Errorf("midpoint %v, want 0.075", got)
	}

	// Made equally long, the vectors are (0.702599, 0.711586) twice and (-0.711425,
	// -0.702784); they add up to 0.693773 and 0.720388. The noise has a standard
	// deviation of 2 x 0.002; seven of them are passed with a chance below 1e-11.
	open("sum", &conclavev1.Mechanism{Kind: conclavev1.Mechanism_KIND_GAUSSIAN_SUM, Sigma: 0.002})
	release, err = client.Ask(ctx, &conclavev1.Round{Run: "sum", Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Gradients{Gradients: &conclavev1.GradientSum{
			Teacher: teacher, Training: column(0.5), TrainingClasses: []uint32{0}, Queries: column(0.5, 0.25), QueryClasses: []uint32{0, 0}, Bound: 1 << 16,
		}},
	}}}, nil)
	testkit.Must(t, err)
	for i, want := range []float64{0.693773, 0.720388} {
		if got := float64(release.GetSum().Values[i]) / (1 << 16); math.Abs(got-want) > 7*0.004 {
			t.Errorf("entry %d of the sum is %v, want about %v", i, got, want)
		}
	}
}

// The sum of a node is that of its teachers' vectors, each of which has the length of the
// bound, or less where it was shorter than the clip.
func TestGradientSumsByTeacher(t *testing.T) {
	for _, features := range []conclavev1.TeacherSpec_Features{conclavev1.TeacherSpec_FEATURES_PLAIN, conclavev1.TeacherSpec_FEATURES_STANDARD} {
		for _, directions := range []uint32{0, 2} {
			for _, clip := range []float64{0, 0.3, 1e3} {
				t.Run(fmt.Sprint(features, directions, clip), func(t *testing.T) {
					n := smallNode(t, 4)
					r := sumRound("r", 1, clip)
					q := r.GetSum().GetGradients()
					q.Teacher.Features, q.Projection = features, &conclavev1.Projection{Directions: directions, Seed: 5}
					got := gradientSumOf(t, n, r)
					each := map[uint32]int{0: smallFeatures, 2: 2}[directions]
					want := make([]float64, 12*each)
					for _, v := range stepsByHand(t, n, q, each) {
						length := 0.0
						for _, x := range v {
							length += x * x
						}
						scale := 1 / math.Sqrt(length)
						if clip > 0 {
							scale = min(scale, 1/clip)
						}
						for i, x := range v {
							want[i] += x * scale
						}
					}
					for i, w := range want {
						if g := float64(got[i]) / (1 << 16); math.Abs(g-w) > 4*(1./(1<<16)+1e-5) {
							t.Fatalf("entry %d is %v, want %v", i, g, w)
						}
					}
				})
			}
		}
	}
}

// stepsByHand trains a node's teachers and takes the steps of all records by finite
// differences of the generator's loss, softplus(-score), in what the teachers see.
func stepsByHand(t *testing.T, n *Node, q *conclavev1.GradientSum, each int) [][]float64 {
	t.Helper()
	a, err := n.checkBatch(q)
	testkit.Must(t, err)
	e, err := a.spec.ensemble()
	testkit.Must(t, err)
	examples, training, queries, w := n.examples, a.training.x, a.queries.x, smallFeatures
	standard := q.Teacher.Features == conclavev1.TeacherSpec_FEATURES_STANDARD
	if standard {
		units, err := nn.NewStandard(training, a.training.classes, smallFeatures, 2, []int{0})
		testkit.Must(t, err)
		examples = slices.Clone(n.standardize(units))
		training, queries, w = units.All(training, a.training.classes), units.All(queries, a.queries.classes), units.Width()
	}
	testkit.Must(t, e.Train(examples, training, a.training.classes, a.steps, a.batch))
	loss := func(x []float32) []float64 {
		scores := make([]float32, 4*12)
		testkit.Must(t, e.Score(scores, x, a.queries.classes))
		out := make([]float64, len(scores))
		for i, s := range scores {
			out[i] = math.Log1p(math.Exp(-float64(s)))
		}
		return out
	}
	steps := make([][]float32, 4)
	for i := range steps {
		steps[i] = make([]float32, 12*smallFeatures)
	}
	const h = 1.0 / 64
	for j := range smallFeatures {
		at := func(d float32) []float64 {
			x := slices.Clone(queries)
			for i := range 12 {
				x[i*w+j] += d
				if standard && j == 0 { // x is the one number: its square moves with it
					x[i*w+smallFeatures] = (x[i*w]*x[i*w] - 1) / math.Sqrt2
				}
			}
			return loss(x)
		}
		up, down := at(h), at(-h)
		for i := range up {
			steps[i/12][i%12*smallFeatures+j] = float32((down[i] - up[i]) / (2 * h))
		}
	}
	out := make([][]float64, 4)
	for i, s := range steps {
		if each != smallFeatures {
			p, err := projection.New(projection.Spec{Features: smallFeatures, Directions: each, Clip: 1, Bins: 2}, q.Projection.Seed)
			testkit.Must(t, err)
			projected := make([]float32, 12*each)
			p.Project(projected, s, 12)
			s = projected
		}
		for _, v := range s {
			out[i] = append(out[i], float64(v))
		}
	}
	return out
}

// One unit more moves the votes of one teacher, and the sum by at most twice the bound,
// whatever the unit: that is what the aggregator's noise hides.
func TestAUnitMovesGradientsOfOneTeacher(t *testing.T) {
	const teachers, bound = 6, 1 << 16
	for _, unit := range []string{partition.UnitRecord, "who"} {
		c := smallConfig(t, teachers)
		c.Unit = unit
		without := start(t, c, someUnits(t, unit, 39))
		with := withKeyOf(t, without, someUnits(t, unit, 40))
		moved, farthest := map[int]bool{}, 0.0
		// A round may leave the unit out, or move it too little to be seen in a vote: of 600 nodes 24
		// needed more than 6 rounds, 3 more than 20, each round less by a seventh. That 100 are too few has a
		// probability of some 1e-7.
		for number := uint64(0); number < 6 || number < 100 && (len(moved) == 0 || farthest == 0); number++ {
			r := gradientRound("votes", number)
			a := unpack(t, votesOf(t, without, r), teachers, 36, 10)
			b := unpack(t, votesOf(t, with, r), teachers, 36, 10)
			for i := range teachers {
				if rowText(a, i, 36) != rowText(b, i, 36) {
					moved[i] = true
				}
			}
			r = sumRound("sum", number, 0)
			x, y := gradientSumOf(t, without, r), gradientSumOf(t, with, r)
			distance := 0.0
			for i := range x {
				distance += float64(x[i]-y[i]) * float64(x[i]-y[i])
			}
			farthest = max(farthest, math.Sqrt(distance))
		}
		if len(moved) != 1 {
			t.Errorf("unit %s: %d teachers vote otherwise, want 1", unit, len(moved))
		}
		if !(farthest > 0 && farthest <= 2*bound) {
			t.Errorf("unit %s: the sum moved by %v, want above 0 and at most %d", unit, farthest, 2*bound)
		}
	}
}

// Coin flips learn nothing, are unlike between teachers, and alike when asked again.
func TestCoinGradients(t *testing.T) {
	n := smallNode(t, 300)
	r := gradientRound("votes", 1)
	r.GetVote().Teacher.Vote = coinVote
	votes := unpack(t, votesOf(t, n, r), 300, 36, 10)
	var counts [10]int
	for _, v := range votes {
		counts[v]++
	}
	for bin, c := range counts { // 1,080 expected; six standard deviations are 187
		if c < 1080-187 || c > 1080+187 {
			t.Errorf("bin %d has %d of %d votes", bin, c, len(votes))
		}
	}
	s := sumRound("sum", 1, 0.5)
	s.GetSum().GetGradients().Teacher.Vote = coinVote
	sum := gradientSumOf(t, n, s)
	if !slices.Equal(sum, gradientSumOf(t, n, s)) {
		t.Error("asked again, the sum is another")
	}
	length := 0.0
	for _, v := range sum {
		length += float64(v) * float64(v)
	}
	// 300 random vectors of length at most 1 add up to about the root of 300 times it.
	if got := math.Sqrt(length) / (1 << 16); got < 10 || got > 25 {
		t.Errorf("the sum has length %v, want about 17", got)
	}
}

func TestGradientQuestionsAreChecked(t *testing.T) {
	n := smallNode(t, 3)
	vote := func(change func(q *conclavev1.VoteQuestion)) *conclavev1.Round {
		r := gradientRound("r", 1)
		change(r.GetVote())
		return r
	}
	sum := func(change func(q *conclavev1.GradientSum)) *conclavev1.Round {
		r := sumRound("r", 1, 0)
		change(r.GetSum().GetGradients())
		return r
	}
	for want, r := range map[string]*conclavev1.Round{
		"1 to 5":            vote(func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 6 }),
		"in no direction":   vote(func(q *conclavev1.VoteQuestion) { q.Gradient.Directions = 0 }),
		"1 bins":            vote(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 1 }),
		"257 bins":          vote(func(q *conclavev1.VoteQuestion) { q.AnswerClasses = 257 }),
		"clip of projected": vote(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = 0 }),
		"at -1":             vote(func(q *conclavev1.VoteQuestion) { q.Gradient.Clip = -1 }),
		"use gradient":      vote(func(q *conclavev1.VoteQuestion) { q.Teacher.Vote = relativeVote }),
		"does not say real": vote(func(q *conclavev1.VoteQuestion) { q.Gradient, q.AnswerClasses = nil, 2 }),
		"6 directions":      sum(func(q *conclavev1.GradientSum) { q.Projection = &conclavev1.Projection{Directions: 6} }),
		"bound is 0":        sum(func(q *conclavev1.GradientSum) { q.Bound = 0 }),
		"clip norm is -1":   sum(func(q *conclavev1.GradientSum) { q.Clip = -1 }),
		"clip norm is NaN":  sum(func(q *conclavev1.GradientSum) { q.Clip = math.NaN() }),
		"need records that": sum(func(q *conclavev1.GradientSum) {
			q.Teacher.Model, q.Teacher.Hidden = conclavev1.TeacherSpec_MODEL_CONVOLUTION, 4
		}),
		"see nothing": sum(func(q *conclavev1.GradientSum) { q.Teacher.Shared = true }),
		"more than 131072": sum(func(q *conclavev1.GradientSum) {
			q.Queries, q.QueryClasses = generated(30_000, 5, rand.New(rand.NewPCG(1, 1)))
		}),
		"the rule":        sum(func(q *conclavev1.GradientSum) { q.Teacher.Vote = plainVote }),
		"without queries": sum(func(q *conclavev1.GradientSum) { q.Queries, q.QueryClasses = nil, nil }),
		"set its teacher": sum(func(q *conclavev1.GradientSum) { q.Teacher = nil }),
		"they have 4 features": sum(func(q *conclavev1.GradientSum) {
			q.Queries, q.QueryClasses = generated(3, 4, rand.New(rand.NewPCG(1, 1)))
		}),
	} {
		want = strings.Replace(want, "the rule", "vote rule", 1)
		_, err := n.answer(&question{round: r, sha256: want})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	if n.current != nil {
		t.Error("teachers were made for a question that was refused")
	}
}

// Networks that are told the class, and convolutions, vote and sum like others.
func TestOtherTeachersAnswer(t *testing.T) {
	n := smallNode(t, 3)
	r := sumRound("told", 1, 0)
	q := r.GetSum().GetGradients()
	q.Teacher.Model, q.Teacher.Hidden, q.Teacher.Shared = conclavev1.TeacherSpec_MODEL_HIDDEN, 4, true
	if s := gradientSumOf(t, n, r); len(s) != 12*smallFeatures || slices.Max(s) == 0 {
		t.Errorf("told the class: %v", s)
	}
	votesOf(t, n, voteRound("plain", 1)) // other teachers of another run

	rng := rand.New(rand.NewPCG(1, 2))
	images := start(t, smallConfig(t, 3), imageTable(t, 8, 8, 1, 40))
	for _, shared := range []bool{false, true} {
		training, trainingClasses := generated(16, 64, rng)
		queries, queryClasses := generated(6, 64, rng)
		round := &conclavev1.Round{Run: fmt.Sprint(shared), Number: 1, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
			Statistic: &conclavev1.SumQuestion_Gradients{Gradients: &conclavev1.GradientSum{
				Teacher: &conclavev1.TeacherSpec{
					Model: conclavev1.TeacherSpec_MODEL_CONVOLUTION, Hidden: 4, Shared: shared, Vote: gradientVote, Classes: 2, Steps: 3, Batch: 8,
					LearningRate: 0.01, Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
				},
				Training: training, TrainingClasses: trainingClasses, Queries: queries, QueryClasses: queryClasses, Bound: 1 << 12,
			}},
		}}}
		s := gradientSumOf(t, images, round)
		if len(s) != 6*64 || slices.Max(s) == 0 {
			t.Errorf("convolutions, shared %v: %v", shared, s)
		}
	}
}
