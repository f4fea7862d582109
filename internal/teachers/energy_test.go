package teachers

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// energyRound asks for the sum of gradients of energy critics.
func energyRound(run string, number uint64) *round {
	r := sumRound(run, number, 0)
	r.sum.Teacher.Model = conclavev1.TeacherSpec_MODEL_ENERGY
	return r
}

// The gradients are those of minus the score, by finite differences: the mean distance to
// the generated records of the class, for each record of the teacher, less the distance to
// it.
func TestEnergyGradients(t *testing.T) {
	site := smallSite(t, 3)
	a, err := readBatch(site.Public, energyRound("r", 1).sum)
	testkit.Must(t, err)
	l, err := prepare(site, nil, a)
	testkit.Must(t, err)
	distance := func(x, y []float32) float64 {
		sum := energyFloor
		for j := range x {
			d := float64(x[j] - y[j])
			sum += d * d
		}
		return math.Sqrt(sum)
	}
	const width = questiontest.SmallFeatures
	loss := func(teacher, class int, x []float32) (sum float64) {
		own := l.examples[teacher].ByClass[class]
		for at := 0; at < len(own); at += width {
			sum += distance(x, own[at:at+width])
			var push, count float64
			for i, c := range a.training.classes {
				if c == class {
					push += distance(x, a.training.x[i*width:(i+1)*width])
					count++
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
			x := slices.Clone(a.queries.x[q*width : (q+1)*width])
			for j := range x {
				const h = 1e-3
				was := x[j]
				x[j] = was + h
				up := loss(teacher, class, x)
				x[j] = was - h
				down := loss(teacher, class, x)
				x[j] = was
				want := (up - down) / (2 * h)
				if g := float64(dx[q*width+j]); math.Abs(g-want) > 0.01*(1+math.Abs(want)) {
					t.Fatalf("teacher %d, query %d, feature %d: %v, want %v", teacher, q, j, g, want)
				}
			}
		}
	}
}

// The mean of the teachers' gradients does not depend on how the records are divided.
func TestEnergyLosesNothingByPartitions(t *testing.T) {
	table := questiontest.SmallTable(t, 60, 1)
	var sums [][]float32
	for _, teachers := range []int{1, 12} {
		site := questiontest.Site(t, table, teachers)
		a, err := readBatch(site.Public, energyRound("r", 1).sum)
		testkit.Must(t, err)
		l, err := prepare(site, nil, a)
		testkit.Must(t, err)
		all := make([][]float32, teachers)
		l.energyGradients(func(teacher int, dx []float32) { all[teacher] = slices.Clone(dx) })
		sum := make([]float32, 12*questiontest.SmallFeatures)
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
	site := smallSite(t, 4)
	first := gradientSumOf(t, site, energyRound("r", 1))
	if slices.Max(first) == 0 {
		t.Error("the sum is nothing")
	}
	again := questiontest.SiteIn(t, questiontest.SmallTable(t, 80, 1), 4, site.State)
	if !slices.Equal(first, gradientSumOf(t, again, energyRound("r", 1))) {
		t.Error("after a restart the answer is another")
	}
	saved, err := safetensors.Load(statePath(site.State, "r"))
	testkit.Must(t, err)
	if len(saved.ByName) != 0 {
		t.Errorf("%d tensors are kept", len(saved.ByName))
	}
	votes := voteRound("v", 1)
	votes.vote.Teacher.Model = conclavev1.TeacherSpec_MODEL_ENERGY
	if reason(site, votes) == "" {
		t.Error("teachers without a network voted real or fake")
	}

	rng := rand.New(rand.NewPCG(1, 2))
	r := energyRound("i", 1)
	q := r.sum
	q.Training, q.TrainingClasses = teacherstest.Generated(8, 64, rng)
	q.Queries, q.QueryClasses = teacherstest.Generated(6, 64, rng)
	q.Teacher.Features, q.Teacher.Cosines = conclavev1.TeacherSpec_FEATURES_COSINES, 9
	images := questiontest.Site(t, questiontest.Images(t, 8, 8, 1, 30), 3)
	if s := gradientSumOf(t, images, r); len(s) != 6*9 || slices.Max(s) == 0 {
		t.Errorf("of images: %v", s)
	}
}
