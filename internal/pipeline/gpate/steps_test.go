package gpate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/projection"
)

// bare is a trainer with only what steps need.
func bare(answers Answers, seen, directions int) *Trainer {
	o := smallOptions()
	o.Answers, o.Directions, o.Bins, o.Clip = answers, directions, 4, 0.5
	return &Trainer{NetworkStudent: &pipeline.NetworkStudent{Classes: 2}, opts: o, seen: seen}
}

func aboutRecords(records int) *pipeline.TeacherQuestion {
	return &pipeline.TeacherQuestion{Classes: pipeline.Balanced(records, 2), Seed: 9}
}

func mustProjection(t testing.TB, tr *Trainer) *projection.Projection {
	t.Helper()
	p, err := projection.New(tr.opts.projected(tr.seen), 9)
	testkit.Must(t, err)
	return p
}

func near(t *testing.T, what string, got []float32, want []float64, within float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if math.Abs(float64(got[i])-w) > within {
			t.Errorf("%s: number %d is %v, want %v", what, i, got[i], w)
		}
	}
}

// A sum without noise is a vector of length 1 at most: if its n numbers are equal, each becomes 1.
func TestStepsOfSums(t *testing.T) {
	tr := bare(Sum, 3, 3)
	a := &pipeline.GradientAnswer{Paid: pipeline.Paid{Teachers: 10}, Sum: []float32{0.5, -0.5, 0, 0.25, 0, 1}}
	a.Noise = 0.2
	got, err := tr.steps(aboutRecords(2), a)
	if err != nil || got.answered != 6 {
		t.Fatalf("%+v, %v", got, err)
	}
	r := math.Sqrt(6)
	near(t, "sum", got.steps, []float64{r / 2, -r / 2, 0, r / 4, 0, r}, 1e-6)
	if math.Abs(got.noise-0.2*r) > 1e-9 {
		t.Errorf("noise %v, want %v", got.noise, 0.2*r)
	}

	// Noise of 0.2 on a feature's mean square of (0.5² + 0.25²)/2, 0.5²/2 and 1/2 leaves
	// these shares.
	shrink(got.steps, 3, got.noise)
	shares := []float64{1 - 0.04/0.15625, 1 - 0.04/0.125, 1 - 0.04/0.5}
	near(t, "shrunk", got.steps, []float64{r / 2 * shares[0], -r / 2 * shares[1], 0, r / 4 * shares[0], 0,
		r * shares[2]}, 1e-6)
}

// Projected sums are converted back by the directions of the question's seed.
func TestStepsOfProjectedSums(t *testing.T) {
	tr := bare(Sum, 5, 2)
	sum := []float32{0.5, -0.5, 0.25, 0.125, 0, 0.5}
	got, err := tr.steps(aboutRecords(3), &pipeline.GradientAnswer{Paid: pipeline.Paid{Teachers: 10}, Sum: sum})
	if err != nil || got.answered != 6 {
		t.Fatalf("%+v, %v", got, err)
	}
	scaled := make([]float32, len(sum))
	for i, v := range sum {
		scaled[i] = v * float32(math.Sqrt(6))
	}
	want := make([]float32, 15)
	mustProjection(t, tr).Back(want, scaled, 3)
	var wide []float64
	for _, v := range want {
		wide = append(wide, float64(v))
	}
	near(t, "projected", got.steps, wide, 1e-6)
}

// The values of votes are midpoints of winners, or means of noisy counts, over the clip.
func TestValuesOfVotes(t *testing.T) {
	tr := bare(Winner, 5, 2)
	p := mustProjection(t, tr)
	winners := []int{0, 3, -1, 1, 2, -1}
	values, answered, noise, err := tr.values(p, 6, &pipeline.GradientAnswer{Winners: winners,
		Paid: pipeline.Paid{Teachers: 8}})
	if err != nil || answered != 4 || noise != 0 {
		t.Fatalf("%d answered, noise %v, %v", answered, noise, err)
	}
	near(t, "winners", values, []float64{-0.75, 0.75, 0, -0.25, 0.25, 0}, 1e-6)

	tr = bare(Histogram, 5, 1)
	p = mustProjection(t, tr)
	a := &pipeline.GradientAnswer{
		Paid: pipeline.Paid{Teachers: 8}, Noise: 0.5, Winners: []int{0, 3}, Histogram: []float64{8, 0, 0, 0, -2, 0, 4,
			6},
	}
	values, answered, noise, err = tr.values(p, 2, a)
	if err != nil || answered != 2 {
		t.Fatalf("%d answered, %v", answered, err)
	}
	near(t, "histogram", values, []float64{-0.75, (2*0.75 + 4*0.25 + 6*0.75) / 8}, 1e-6)
	if want := 0.5 * math.Sqrt(2*0.75*0.75+2*0.25*0.25) / 8; math.Abs(noise-want) > 1e-9 {
		t.Errorf("noise %v, want %v", noise, want)
	}
	// The counts of an unanswered vote carry no information, and the noise is not uniform.
	a.Winners[0] = -1
	if values, answered, noise, err = tr.values(p, 2, a); err != nil || answered != 1 || noise != 0 || values[0] != 0 {
		t.Errorf("%v, %d answered, noise %v, %v", values, answered, noise, err)
	}
}

// The stated noise is that of the values: of histograms with normal noise on the counts, and of sums.
func TestTheNoiseOfValues(t *testing.T) {
	const n = 20000
	rng := rand.New(rand.NewPCG(1, 7))
	for _, answers := range []Answers{Sum, Histogram} {
		tr := bare(answers, n, 1)
		a := &pipeline.GradientAnswer{Paid: pipeline.Paid{Teachers: 50}, Noise: 3}
		for range n {
			a.Sum = append(a.Sum, float32(3*rng.NormFloat64()))
			a.Winners = append(a.Winners, 0)
			for range 4 {
				a.Histogram = append(a.Histogram, 12.5+3*rng.NormFloat64())
			}
		}
		p, err := projection.New(projection.Spec{Features: 1, Directions: 1, Clip: 0.5, Bins: 4}, 1)
		testkit.Must(t, err)
		values, _, noise, err := tr.values(p, n, a)
		testkit.Must(t, err)
		var square float64
		for _, v := range values {
			square += float64(v) * float64(v) / n
		}
		// The mean square over noise² is 1 +- sqrt(2/n): six of them.
		if ratio := square / (noise * noise); math.Abs(ratio-1) > 6*math.Sqrt(2./n) {
			t.Errorf("%s: mean square %v with noise %v", answers, square, noise)
		}
	}
}

// Pure noise moves nothing, a step without noise stays, and no step grows or turns.
func TestShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		directions, n := rapid.IntRange(1, 5).Draw(t, "directions"), rapid.IntRange(1, 30).Draw(t, "records")
		noise := rapid.SampledFrom([]float64{0, 1e-3, 1, 50}).Draw(t, "noise")
		values := make([]float32, n*directions)
		for i := range values {
			values[i] = float32(rapid.Float64Range(-2, 2).Draw(t, "value"))
		}
		got := append([]float32{}, values...)
		shrink(got, directions, noise)
		for j := range directions {
			energy := 0.0
			for i := range n {
				energy += float64(values[i*directions+j]) * float64(values[i*directions+j]) / float64(n)
			}
			share := 1.0
			if noise > 0 {
				share = max(0, 1-noise*noise/max(energy, 1e-30))
			}
			for i := range n {
				v, g := float64(values[i*directions+j]), float64(got[i*directions+j])
				if math.Abs(g-share*v) > 1e-5 {
					t.Fatalf("direction %d: %v became %v, want a share of %v", j, v, g, share)
				}
			}
		}
	})
}

func TestAnswersThatDoNotFitAreRefused(t *testing.T) {
	one, winners, counts := pipeline.Paid{Teachers: 1}, []int{0, 1, 2, 3}, make([]float64, 16)
	nan := math.NaN()
	for name, c := range map[string]struct {
		answers Answers
		a       pipeline.GradientAnswer
		want    string
	}{
		"no sum":      {Sum, pipeline.GradientAnswer{Paid: one}, "a sum of 0 numbers for 4"},
		"a short sum": {Sum, pipeline.GradientAnswer{Paid: one, Sum: make([]float32, 3)}, "a sum of 3 numbers for 4"},
		"a long sum":  {Sum, pipeline.GradientAnswer{Paid: one, Sum: make([]float32, 5)}, "a sum of 5 numbers for 4"},
		"votes for a sum": {Sum, pipeline.GradientAnswer{Paid: one, Winners: winners, Histogram: counts},
			"a sum of 0 numbers"},
		"NaN in a sum": {Sum, pipeline.GradientAnswer{Paid: one, Sum: []float32{0, 0, float32(nan), 0}},
			"number 2 of the release is NaN"},
		"infinity in a sum": {Sum,
			pipeline.GradientAnswer{Paid: one, Sum: []float32{0, 0, 0, float32(math.Inf(1))}},
			"number 3 of the release is +Inf"},
		"no winners":       {Winner, pipeline.GradientAnswer{Paid: one}, "0 winners and 0 counts of 4 votes"},
		"a winner missing": {Winner, pipeline.GradientAnswer{Paid: one, Winners: winners[1:]}, "3 winners"},
		"a sum for votes":  {Winner, pipeline.GradientAnswer{Paid: one, Sum: make([]float32, 4)}, "0 winners"},
		"a bin too many": {Winner, pipeline.GradientAnswer{Paid: one, Winners: []int{0, 0, 4, 0}},
			"bin 4 of 4 won"},
		"no teachers":  {Winner, pipeline.GradientAnswer{Winners: winners}, "4 winners"},
		"no histogram": {Histogram, pipeline.GradientAnswer{Paid: one, Winners: winners}, "4 winners and 0 counts"},
		"a count missing": {Histogram, pipeline.GradientAnswer{Paid: one, Winners: winners, Histogram: counts[1:]},
			"15 counts"},
		"NaN in a count": {Histogram,
			pipeline.GradientAnswer{Paid: one, Winners: winners, Histogram: append(counts[1:], nan)}, "not a number"},
		"a bin too many of counts": {Histogram, pipeline.GradientAnswer{Paid: one, Winners: []int{9, 0, 0, 0},
			Histogram: counts}, "bin 9 of 4 won"},
		"counts without any teacher": {Histogram, pipeline.GradientAnswer{Winners: winners, Histogram: counts},
			"4 winners"},
	} {
		if _, err := bare(c.answers, 5, 2).steps(aboutRecords(2), &c.a); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}
