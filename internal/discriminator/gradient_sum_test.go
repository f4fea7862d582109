package discriminator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/discriminator/discriminatortest"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	logisticLoss    = conclavev1.DiscriminatorSum_LOSS_LOGISTIC
	wassersteinLoss = conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN
)

// divided divides 60 units among the given number of sites.
func divided(t testing.TB, unit string, sites int) []*question.Site {
	t.Helper()
	out := make([]*question.Site, sites)
	for i := range out {
		out[i] = questiontest.Site(t, questiontest.SmallUnits(t, unit, 60, func(u int) bool { return u%sites == i }), 2)
		questiontest.SampleByRecords(out[i])
	}
	return out
}

// sampled are the units in a site's sample.
func sampled(t testing.TB, s *question.Site, rate float64) []int {
	t.Helper()
	r, err := gnmax.NewRate(rate)
	testkit.Must(t, err)
	sample, err := s.Sample(r)
	testkit.Must(t, err)
	return sample
}

// byHand computes the sum of the sample's clipped gradients in float64, in units of the clip
// norm times bound: a dense network with leaky rectifiers, a unit's loss the mean over its
// records. Only what a network sees of a record is taken from elsewhere where it is more
// than the columns or their units. It returns how many units were in the sample.
func byHand(t testing.TB, s *question.Site, q *conclavev1.DiscriminatorSum) (sum []float64, units int) {
	t.Helper()
	weights, err := safetensors.Floats(q.Weights)
	testkit.Must(t, err)
	w := discriminatortest.Widths(q.Discriminator)
	sum = make([]float64, len(weights))
	for _, u := range sampled(t, s, q.Rate) {
		units++
		gradient := make([]float64, len(weights))
		for _, r := range s.Units[u] {
			seen := seenByHand(t, q, s.Record(r), r.Class)
			addGradient(gradient, weights, w, seen, r.Class, q, 1/float64(len(s.Units[u])))
		}
		norm := 0.0
		for _, g := range gradient {
			norm += g * g
		}
		scale := float64(q.Bound) / max(q.Clip, math.Sqrt(norm))
		for i, g := range gradient {
			sum[i] += g * scale
		}
	}
	return sum, units
}

// seenByHand is the network's input for a record.
func seenByHand(t testing.TB, q *conclavev1.DiscriminatorSum, x []float32, class int) []float64 {
	t.Helper()
	d := q.Discriminator
	var seen []float64
	switch {
	case d.Standard:
		mean, err := safetensors.Floats(q.Mean.Data)
		testkit.Must(t, err)
		scale, err := safetensors.Floats(q.Scale.Data)
		testkit.Must(t, err)
		for j, v := range x {
			k := class*questiontest.SmallFeatures + j
			seen = append(seen, max(-4, min(4, (float64(v)-float64(mean[k]))*float64(scale[k]))))
		}
		seen = append(seen, (seen[0]*seen[0]-1)/math.Sqrt2) // x is the one number
	case d.Pieces || d.Fourier > 0:
		net, err := New(Spec{
			Features: questiontest.SmallFeatures, Numbers: []int{0}, Classes: 2, Kind: Dense, Each: true,
			Pieces: d.Pieces, Fourier: int(d.Fourier), Seed: d.Seed,
		}, rand.New(rand.NewPCG(1, 1)))
		testkit.Must(t, err)
		for _, v := range net.Inputs(nil, x, []int{class}) {
			seen = append(seen, float64(v))
		}
	default:
		for _, v := range x {
			seen = append(seen, 2*float64(v)-1)
		}
	}
	if d.ByClass == conclavev1.Discriminator_CLASSES_TOLD {
		told := []float64{0, 0}
		told[class] = 1
		seen = append(seen, told...)
	}
	return seen
}

// addGradient adds the gradient of one record's loss by all weights, times factor. Weights
// of a layer are [inputs, outputs], its biases come after them.
func addGradient(
	gradient []float64, weights []float32, w []int, x []float64, class int,
	q *conclavev1.DiscriminatorSum, factor float64,
) {
	inputs, starts, at := [][]float64{x}, []int{}, 0
	var before [][]float64 // the rectifiers
	for l := range w[1:] {
		in, out := w[l], w[l+1]
		y := make([]float64, out)
		for o := range y {
			y[o] = float64(weights[at+in*out+o])
			for i, v := range inputs[l] {
				y[o] += v * float64(weights[at+i*out+o])
			}
		}
		before, starts = append(before, y), append(starts, at)
		after := make([]float64, out)
		for o, v := range y {
			after[o] = max(v, 0.2*v)
		}
		inputs, at = append(inputs, after), at+(in+1)*out
	}
	scores := before[len(before)-1]
	head := 0
	if q.Discriminator.ByClass == conclavev1.Discriminator_CLASSES_EACH {
		head = class
	}
	dy := make([]float64, len(scores))
	dy[head] = -factor // of -score
	if q.Loss == logisticLoss {
		dy[head] /= 1 + math.Exp(scores[head]) // of log(1 + exp(-score))
	}
	for l := len(w) - 2; l >= 0; l-- {
		in, out := w[l], w[l+1]
		dx := make([]float64, in)
		for o, d := range dy {
			gradient[starts[l]+in*out+o] += d
			for i, v := range inputs[l] {
				gradient[starts[l]+i*out+o] += d * v
				dx[i] += d * float64(weights[starts[l]+i*out+o])
			}
		}
		if l > 0 {
			for i, v := range before[l-1] {
				if v < 0 {
					dx[i] *= 0.2
				}
			}
		}
		dy = dx
	}
}

// What nodes add up is the sum of the clipped gradients, but for the part of a step that
// each unit's numbers are cut by: less than the root of their number in length. A network
// computes in float32, to about a millionth.
func TestGradientSumsAreThoseOfOneMachine(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		sites := divided(t, unit, 2)
		for name, change := range discriminatortest.Networks() {
			for seed, spread := range []float64{0, 0.3, 1} {
				q := discriminatortest.Question(uint64(seed), spread, change)
				got := questiontest.AddUp(t, sites, GradientSum, q)
				want, units := make([]float64, len(got)), 0
				for _, s := range sites {
					of, sampled := byHand(t, s, q)
					units += sampled
					for i, v := range of {
						want[i] += v
					}
				}
				square := 0.0
				for i, v := range got {
					square += (float64(v) - want[i]) * (float64(v) - want[i])
				}
				if units == 0 || units == 60 && q.Rate < 1 {
					t.Fatalf("%d units in the sample", units)
				}
				most := float64(units) * (math.Sqrt(float64(len(got))) + 1e-5*float64(q.Bound))
				if off := math.Sqrt(square); off > most {
					t.Errorf("unit %s, %s, spread %v: the sum of %d units is off by %v steps, at most %v",
						unit, name, spread, units, off, most)
				}
			}
		}
	}
}

// A node with an empty sample answers like any other, with zeros, and so does one that is to add nothing: an answer
// does not reveal the size of its sample.
func TestAGradientSumDoesNotTellTheSizeOfItsSample(t *testing.T) {
	s := divided(t, partition.UnitRecord, 1)[0]
	q := discriminatortest.Question(4, 0.5, nil)
	length := discriminatortest.Parameters(q.Discriminator)
	for name, sample := range map[string][]int{"nobody": nil, "one": {3}, "all": questiontest.Rows(60)} {
		s.Sample = func(gnmax.Rate) ([]int, error) { return sample, nil }
		got := questiontest.MustAsk(t, s, GradientSum, q, name, 1).Sum
		if len(got) != length {
			t.Fatalf("%s: %d numbers of %d weights", name, len(got), length)
		}
		if zeros := !slices.ContainsFunc(got, func(v int64) bool { return v != 0 }); zeros != (name == "nobody") {
			t.Errorf("%s: the sum is %v", name, got)
		}
	}
	q.Nothing = true
	if got := questiontest.Sum(t, s, GradientSum, q); !slices.Equal(got, make([]int64, length)) {
		t.Errorf("of nothing: %v", got)
	}
}

// Sites of programs draw: all units of rate 1, none or few of a tiny one, and other ones
// each time.
func TestSitesDrawTheirSamples(t *testing.T) {
	s := questiontest.Site(t, questiontest.SmallUnits(t, partition.UnitRecord, 60, everybody), 2)
	drawn, round := s.Sample, uint64(0)
	ask := func(rate float64) []int64 {
		round++
		q := discriminatortest.Question(1, 0.5, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate })
		return questiontest.MustAsk(t, s, GradientSum, q, "r", round).Sum
	}
	all := ask(1)
	s.Sample = func(gnmax.Rate) ([]int, error) { return questiontest.Rows(60), nil }
	if !slices.Equal(all, ask(1)) {
		t.Error("at rate 1 somebody is left out")
	}
	s.Sample = drawn
	// Somebody is in the sample with a probability of 60 x 2^-64.
	if got := ask(0x1p-64); slices.ContainsFunc(got, func(v int64) bool { return v != 0 }) {
		t.Errorf("rate 2^-64: %v", got)
	}
	// Two samples of 60 are alike with a probability of 2^-60.
	if a, b := ask(0.5), ask(0.5); slices.Equal(a, b) || slices.Equal(a, all) {
		t.Error("two samples are the same")
	}
}

// A question that is asked again has the sample that it had, whatever other runs ask and also after
// a start; the next round has another, and a question that comes back after it too.
func TestAQuestionAskedAgainHasItsSample(t *testing.T) {
	table := questiontest.SmallUnits(t, partition.UnitRecord, 300, everybody)
	s := questiontest.Site(t, table, 2)
	q, other := discriminatortest.Question(1, 0.5, nil), discriminatortest.Question(2, 0.5, nil)
	ask := func(q *conclavev1.DiscriminatorSum, run string, round uint64) []int64 {
		t.Helper()
		return questiontest.MustAsk(t, s, GradientSum, q, run, round).Sum
	}
	first := ask(q, "r", 1)
	want := slices.Clone(first)
	first[0]++ // an answer is its receiver's
	elsewhere := ask(q, "other", 1)
	if again := ask(q, "r", 1); !slices.Equal(again, want) {
		t.Error("a question that is asked again gets another sum")
	}
	s = questiontest.SiteIn(t, table, 2, s.State)
	if !slices.Equal(ask(q, "r", 1), want) || !slices.Equal(ask(q, "other", 1), elsewhere) {
		t.Error("after a start a question gets another sum")
	}
	// Two samples of 300 are alike with a probability of 2^-300.
	next := ask(q, "r", 2)
	if slices.Equal(elsewhere, want) || slices.Equal(next, want) {
		t.Error("another run, or the next round, gets the same sum")
	}
	ask(other, "r", 2)
	if slices.Equal(ask(q, "r", 2), next) {
		t.Error("a question that another one replaced, and that is charged again, gets its old sum")
	}
}

func everybody(int) bool { return true }

// How often a unit is in a node's sample is the rate: of a linear discriminator without a
// bound on gradients, the numbers of the biases add up to minus the units in the sample.
func TestSitesSampleAtTheirRate(t *testing.T) {
	const units, rounds, clip, bound = 60, 400, 1 << 10, 1 << 20
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		s := questiontest.Site(t, questiontest.SmallUnits(t, unit, units, everybody), 2)
		for _, rate := range []float64{0.1, 0.7} {
			q := discriminatortest.Question(1, 0, func(q *conclavev1.DiscriminatorSum) {
				q.Discriminator.Layers, q.Loss, q.Rate, q.Clip, q.Bound = 0, wassersteinLoss, rate, clip, bound
			})
			var mean, square float64
			for round := range uint64(rounds) {
				sum := questiontest.MustAsk(t, s, GradientSum, q, "r", round).Sum
				size := 0.0
				for _, v := range sum[len(sum)-2:] {
					size -= float64(v) * clip / bound
				}
				if math.Abs(size-math.Round(size)) > 0.2 { // each unit's part is cut by two steps at most
					t.Fatalf("a sample of %v units", size)
				}
				d := math.Round(size) - units*rate
				mean, square = mean+d/rounds, square+d*d/rounds
			}
			// Six standard deviations of both: passed with a chance below 1e-6 in all.
			v := units * rate * (1 - rate)
			if math.Abs(mean) > 6*math.Sqrt(v/rounds) || math.Abs(square-v) > 6*math.Sqrt(2*v*v/rounds) {
				t.Errorf("unit %s, rate %v: sizes are %v beyond %v, with variance %v, want %v",
					unit, rate, mean, units*rate, square, v)
			}
		}
	}
}

// Samples processed piece by piece give the same sum.
func TestLargeGradientSums(t *testing.T) {
	const units = 2*chunk + 300
	table := questiontest.SmallTable(t, units, 3)
	part := func(from, to int) *question.Site {
		s := questiontest.Site(t, table.Subset(questiontest.Rows(to)[from:]), 2)
		questiontest.SampleByRecords(s)
		return s
	}
	one := []*question.Site{part(0, units)}
	parts := []*question.Site{part(0, 400), part(400, 400+chunk), part(400+chunk, units)}
	for _, rate := range []float64{0.9, 1} {
		q := discriminatortest.Question(1, 0.5, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate })
		if n := len(sampled(t, one[0], rate)); n <= 2*chunk || (rate == 1) != (n == units) {
			t.Fatalf("%d units in the sample", n)
		}
		a, b := questiontest.AddUp(t, one, GradientSum, q), questiontest.AddUp(t, parts, GradientSum, q)
		if !slices.Equal(a, b) {
			t.Errorf("rate %v: three nodes add up to %v, one to %v", rate, b, a)
		}
	}
}

// cases asks for all networks three times, about adversaries at all sizes of weights, and
// with any clip norm, loss and bound.
func cases() questiontest.Cases {
	c := questiontest.Cases{
		Good:  map[string]proto.Message{},
		Zeros: map[string]proto.Message{},
		Bad:   map[string]questiontest.Bad{}, Adversaries: questiontest.Adversaries(),
	}
	for name, change := range discriminatortest.Networks() {
		for seed := range uint64(3) {
			c.Good[fmt.Sprint(name, " ", seed)] = discriminatortest.Question(seed, 0.5, change)
		}
	}
	c.Zeros["nothing"] = discriminatortest.Question(4, 0.5, func(q *conclavev1.DiscriminatorSum) { q.Nothing = true })
	for name, bad := range discriminatortest.Spoiled() {
		c.Bad[name] = questiontest.Bad{Params: discriminatortest.Question(1, 0.5, bad.Change), Want: bad.Want}
	}
	reached := map[proto.Message]bool{} // by a unit whose gradient is longer than the clip norm
	for _, spread := range []float64{0, 1e-20, 0.5, 30, 1e6, 1e19, 3e37} {
		for _, clip := range []float64{1e-18, 1e-3, 1, 1e30} {
			for _, loss := range []conclavev1.DiscriminatorSum_Loss{logisticLoss, wassersteinLoss} {
				for _, bound := range []uint64{1 << 8, 1 << 16, 1 << 20} {
					q := discriminatortest.Question(1, spread, func(q *conclavev1.DiscriminatorSum) {
						q.Rate, q.Clip, q.Bound, q.Loss = 1, clip, bound, loss
						if spread < 1 {
							discriminatortest.Standard(q)
						}
					})
					c.Bounds = append(c.Bounds, q)
					reached[q] = clip <= 1e-3 && spread <= 0.5 && bound > 1<<8
				}
			}
		}
	}
	c.Moved = func(t testing.TB, a questiontest.Adversary, params proto.Message, distance float64) {
		q := params.(*conclavev1.DiscriminatorSum)
		if bound := float64(q.Bound); reached[q] && distance*distance < bound*bound*9/10 {
			t.Errorf("%s, clip %v, %v: the sum moved by %v only, of %v", a.Name, q.Clip, q.Loss, distance, bound)
		}
	}
	return c
}

func TestGradientSumIsAKind(t *testing.T) { questiontest.Run(t, GradientSum, cases()) }

func FuzzGradientSum(f *testing.F) { questiontest.Fuzz(f, GradientSum, cases()) }

// Images, by their cosines and by convolutions, wherever they are.
func TestGradientSumsOfImages(t *testing.T) {
	all := questiontest.Images(t, 2, 2, 1, 60)
	part := func(rows []int) *question.Site {
		s := questiontest.Site(t, all.Subset(rows), 2)
		questiontest.SampleByRecords(s)
		return s
	}
	rows := questiontest.Rows(60)
	one, two := []*question.Site{part(rows)}, []*question.Site{part(rows[:25]), part(rows[25:])}
	for name, change := range map[string]func(d *conclavev1.Discriminator) int{
		"pixels":  func(*conclavev1.Discriminator) int { return 5*6 + 7*2 },
		"cosines": func(d *conclavev1.Discriminator) int { d.Cosines = 1; return 2*6 + 7*2 },
		"convolution": func(d *conclavev1.Discriminator) int {
			d.Kind = conclavev1.Discriminator_KIND_CONVOLUTION
			return 17*6 + 7*2
		},
	} {
		q := discriminatortest.Question(1, 0, func(q *conclavev1.DiscriminatorSum) {
			q.Weights = safetensors.Bytes(discriminatortest.Weights(change(q.Discriminator), 0.5, 2))
		})
		got := questiontest.AddUp(t, two, GradientSum, q)
		if want := questiontest.AddUp(t, one, GradientSum, q); !slices.Equal(got, want) || slices.Max(got) == 0 {
			t.Errorf("%s: two nodes add up to %v, one to %v", name, got, want)
		}
	}
}
