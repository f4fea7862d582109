package node

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// energyRound asks for the sum of gradients of energy critics.
func energyRound(run string, number uint64) *conclavev1.Round {
	r := sumRound(run, number, 0)
	r.GetSum().GetGradients().Teacher.Model = conclavev1.TeacherSpec_MODEL_ENERGY
	return r
}

// The gradients are those of minus the score, by finite differences: the mean distance to
// the generated records of the class, for each record of the teacher, less the distance to
// it.
func TestEnergyGradients(t *testing.T) {
	n := smallNode(t, 3)
	a, err := n.checkBatch(energyRound("r", 1).GetSum().GetGradients())
	testkit.Must(t, err)
	l, err := n.prepare(&runState{spec: a.spec}, a)
	testkit.Must(t, err)
	distance := func(x, y []float32) float64 {
		sum := energyFloor
		for j := range x {
			d := float64(x[j] - y[j])
			sum += d * d
		}
		return math.Sqrt(sum)
	}
	loss := func(teacher, class int, x []float32) (sum float64) {
		own := l.examples[teacher].ByClass[class]
		for at := 0; at < len(own); at += smallFeatures {
			sum += distance(x, own[at:at+smallFeatures])
			var push, count float64
			for i, c := range a.training.classes {
				if c == class {
					push, count = push+distance(x, a.training.x[i*smallFeatures:(i+1)*smallFeatures]), count+1
				}
			}
			sum -= push / count
		}
		return sum
	}
	got := make([][]float32, 3)
	l.energyGradients(func(teacher int, dx []float32) { got[teacher] = slices.Clone(dx) })
	for teacher, dx := range got {
		for q, class := range a.queries.classes {
			x := slices.Clone(a.queries.x[q*smallFeatures : (q+1)*smallFeatures])
			for j := range x {
				const h = 1e-3
				was := x[j]
				x[j] = was + h
				up := loss(teacher, class, x)
				x[j] = was - h
				down := loss(teacher, class, x)
				x[j] = was
				want := (up - down) / (2 * h)
				if g := float64(dx[q*smallFeatures+j]); math.Abs(g-want) > 0.01*(1+math.Abs(want)) {
					t.Fatalf("teacher %d, query %d, feature %d: %v, want %v", teacher, q, j, g, want)
				}
			}
		}
	}
}

// The mean of the teachers' gradients does not depend on how the records are divided.
func TestEnergyLosesNothingByPartitions(t *testing.T) {
	table := smallTable(t, 60, 1)
	var sums [][]float32
	for _, teachers := range []int{1, 12} {
		n := start(t, smallConfig(t, teachers), table)
		a, err := n.checkBatch(energyRound("r", 1).GetSum().GetGradients())
		testkit.Must(t, err)
		l, err := n.prepare(&runState{spec: a.spec}, a)
		testkit.Must(t, err)
		all := make([][]float32, teachers)
		l.energyGradients(func(teacher int, dx []float32) { all[teacher] = slices.Clone(dx) })
		sum := make([]float32, 12*smallFeatures)
		for _, dx := range all {
			for i, v := range dx {
				sum[i] += v
			}
		}
		sums = append(sums, sum)
	}
	for i, v := range sums[0] {
		if math.Abs(float64(v-sums[1][i])) > 1e-3 {
			t.Fatalf("entry %d: %v of one teacher, %v of twelve", i, v, sums[1][i])
		}
	}
}

// Energy teachers keep nothing but their last answer, answer alike after a restart, see
// cosines of images, and do not vote real or fake.
func TestEnergyTeachersAnswer(t *testing.T) {
	c, table := smallConfig(t, 4), smallTable(t, 80, 1)
	n := start(t, c, table)
	first := gradientSumOf(t, n, energyRound("r", 1))
	if slices.Max(first) == 0 {
		t.Error("the sum is nothing")
	}
	again := start(t, c, table)
	if !slices.Equal(first, gradientSumOf(t, again, energyRound("r", 1))) {
		t.Error("after a restart the answer is another")
	}
	saved, err := nn.LoadTensors(statePath(c.State, "r"))
	testkit.Must(t, err)
	if len(saved.ByName) != 0 {
		t.Errorf("%d tensors are kept", len(saved.ByName))
	}
	votes := voteRound("v", 1)
	votes.GetVote().Teacher.Model = conclavev1.TeacherSpec_MODEL_ENERGY
	if _, err := n.answer(&question{round: votes, sha256: "x"}); err == nil {
		t.Error("teachers without a network voted real or fake")
	}

	schema := mustSchema(t, `format: idx
image: {height: 8, width: 8, channels: 1}
label: y
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 64}
  - {name: y, kind: categorical, categories: [a, b]}
`)
	images := partition.NewTable(schema)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		cells := make([]float64, 65)
		for i := range cells[:64] {
			cells[i] = float64(rng.IntN(256))
		}
		cells[64] = float64(rng.IntN(2))
		testkit.Must(t, images.Append(cells, ""))
	}
	r := energyRound("i", 1)
	q := r.GetSum().GetGradients()
	q.Training, q.TrainingClasses = generated(8, 64, rng)
	q.Queries, q.QueryClasses = generated(6, 64, rng)
	q.Teacher.Features, q.Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 9
	if s := gradientSumOf(t, start(t, smallConfig(t, 3), images), r); len(s) != 6*9 || slices.Max(s) == 0 {
		t.Errorf("of images: %v", s)
	}
}
