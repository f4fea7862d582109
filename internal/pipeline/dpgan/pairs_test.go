package dpgan

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// trained returns a student after all steps, and the pool that answered.
func trained(t testing.TB, v variant) (*Trainer, *pool) {
	t.Helper()
	tr, oracle := mustNew(t, v.o, v.e, 1), newPool(t, v.o, v.e, v.record)
	run(t, tr, oracle, v.o.Steps)
	return tr, oracle
}

func mustPairs(t testing.TB, tr *Trainer) []pipeline.Pair {
	t.Helper()
	pairs, err := tr.Pairs()
	testkit.Must(t, err)
	return pairs
}

// generated returns records of a pair's generator.
func generated(p pipeline.Pair, n int) (x []float32, classes []int) {
	classes = pipeline.Balanced(n, 2)
	x = make([]float32, n*p.Generator.Width())
	p.Generator.Sample(x, classes, rand.New(rand.NewPCG(8, 8)))
	return x, classes
}

// Pairs are made from the copies, also after a restart, and reading them changes nothing.
func TestPairsSurviveACheckpoint(t *testing.T) {
	for _, name := range []string{"tilt", "remembered", "pieces", "images"} {
		v := variants(t)[name]
		t.Run(name, func(t *testing.T) {
			tr, _ := trained(t, v)
			pairs := mustPairs(t, tr)
			path := filepath.Join(t.TempDir(), "student.ckpt")
			testkit.Must(t, tr.Save(path, "run"))
			again := mustNew(t, v.o, v.e, 2)
			if _, err := again.Restore(path, "run"); err != nil {
				t.Fatal(err)
			}
			restored := mustPairs(t, again)
			if len(pairs) != v.o.Student.Keep || len(restored) != len(pairs) {
				t.Fatalf("%d pairs, %d after a restart, want %d", len(pairs), len(restored), v.o.Student.Keep)
			}
			for i, p := range pairs {
				x, classes := generated(p, 64)
				y, _ := generated(restored[i], 64)
				if p.Step != tr.kept[i].Step || p.Step != restored[i].Step || !slices.Equal(x, y) {
					t.Fatalf("pair %d after step %d became another", i, p.Step)
				}
				scores := p.Probabilities(nil, x, classes)
				if !slices.Equal(scores, restored[i].Probabilities(nil, x, classes)) {
					t.Fatalf("pair %d scores otherwise after a restart", i)
				}
				for _, s := range scores {
					if !(s >= 0 && s <= 1) {
						t.Fatalf("pair %d gives a probability of %v", i, s)
					}
				}
			}
		})
	}
}

// With the logistic loss scores stay as they are, in the units that they had.
func TestPairsOfTheLogisticLossAreTheCopies(t *testing.T) {
	tr, _ := trained(t, variants(t)["tilt"]) // of standard inputs
	for i, p := range mustPairs(t, tr) {
		k := tr.kept[i]
		x, classes := generated(p, 64)
		if mean, _ := p.Discriminator.Units().Units(); !slices.Equal(mean, k.Mean) {
			t.Fatalf("pair %d has other units", i)
		}
		at := 0
		for _, param := range k.Discriminator {
			if !slices.Equal(p.Discriminator.Weights()[at:at+len(param.Value)], param.Value) {
				t.Fatalf("pair %d has other weights", i)
			}
			at += len(param.Value)
		}
		own := slices.Clone(p.Discriminator.Scores(x, classes))
		if i == 0 {
			if p.Discriminator.SetUnits(tr.scorer.Units()); slices.Equal(own, p.Discriminator.Scores(x, classes)) {
				t.Error("the units of the end score as those of the middle: the test tells nothing")
			}
		}
	}
}

// Scores without a scale become log-odds: exp of them has mean 1 over the generator's own
// records of a class (or over all, with one head), and enough of these have weight.
func TestPairsOfOtherLossesAreLogOdds(t *testing.T) {
	for name, each := range map[string]bool{"wasserstein": false, "kl-wgan": false, "linear": true} {
		v := variants(t)["wasserstein"]
		if name == "kl-wgan" {
			v = variants(t)[name]
		}
		if each {
			v = linear(t, "each", Wasserstein)
		}
		tr, _ := trained(t, v)
		for i, p := range mustPairs(t, tr) {
			for c := range 2 {
				heads := []int{c}
				if !each {
					heads = []int{0, 0, 1} // as real records are distributed
				}
				const n = 30_000
				classes := make([]int, n)
				for j := range classes {
					classes[j] = heads[j%len(heads)]
				}
				x := make([]float32, n*p.Generator.Width())
				p.Generator.Sample(x, classes, rand.New(rand.NewPCG(9, 9)))
				var sum, squares float64
				for _, s := range p.Discriminator.Scores(x, classes) {
					w := math.Exp(float64(s))
					sum, squares = sum+w/n, squares+w*w/n
				}
				// 4,096 records of an effective tenth give it to within 5%; 5 times that.
				if share := sum * sum / squares; math.Abs(sum-1) > 0.25 || share < 0.07 {
					t.Errorf("%s, pair %d, class %d: the mean of exp is %.3f, the effective share %.3f", name, i, c,
						sum, share)
				}
			}
		}
	}
}

// linear is a discriminator whose releases all have the same mean, that of all records.
func linear(t testing.TB, classes string, loss Loss) variant {
	v := variants(t)["pieces"]
	d := &v.o.Discriminator
	d.Loss, d.Classes, d.Memory, d.StepSize, d.StepEnd = loss, classes, 0.8, 0.05, 0.05
	v.o.Rate, v.o.Clip = 1, 0 // no gradient exceeds this norm
	v.o.Student.Every, v.o.Student.Steps = 3, 20
	return v
}

// The tilted generator has the mean score of real records, as released, unless that would leave too few of its
// records.
func TestTiltsHaveTheRealMeanScore(t *testing.T) {
	for _, classes := range []string{"each", "told"} {
		for _, loss := range []Loss{Wasserstein, KLWGAN} {
			tr, oracle := trained(t, linear(t, classes, loss))
			matched := 0
			for i, p := range mustPairs(t, tr) {
				w := p.Generator.Width()
				for c := range 2 {
					var own []int
					for j, class := range oracle.Classes {
						if classes == "told" || class == c {
							own = append(own, j)
						}
					}
					var real []float32
					var of []int
					for _, j := range own {
						real, of = append(real, oracle.X[j*w:(j+1)*w]...), append(of, oracle.Classes[j])
					}
					var wanted float64
					for _, s := range p.Discriminator.Scores(real, of) {
						wanted += float64(s) / float64(len(of))
					}
					// Draw the classes in their real shares.
					x := make([]float32, 30*len(of)*w)
					of = slices.Repeat(of, 30)
					p.Generator.Sample(x, of, rand.New(rand.NewPCG(10, 10)))
					var scores []float64
					for _, s := range p.Discriminator.Scores(x, of) {
						scores = append(scores, float64(s))
					}
					_, spread := moments(scores)
					share, tilted := effective(scores, 1), tiltedMean(scores, 1)
					switch {
					case math.Abs(tilted-wanted) < 0.15*spread:
						matched++
					case share < 0.15 && (wanted-tilted)*(tilted-mean(scores)) > 0: // as far as it may
					default:
						t.Errorf("%s, %s, pair %d, class %d: tilted records score %.3f in the mean, real ones %.3f, "+
							"of a spread of %.3f; effective share %.2f", classes, loss, i, c, tilted, wanted, spread,
							share)
					}
				}
			}
			if matched == 0 {
				t.Errorf("%s, %s: no tilt has the mean score", classes, loss)
			}
			t.Logf("%s, %s: %d of 8 matched", classes, loss, matched)
		}
	}
}

func mean(x []float64) float64 {
	m, _ := moments(x)
	return m
}

// A run that stores no copies has no pairs.
func TestNoPairsAreKept(t *testing.T) {
	v := variants(t)["climb"]
	v.o.Student.Keep = 0
	tr, _ := trained(t, v)
	if pairs := mustPairs(t, tr); len(pairs) != 0 {
		t.Errorf("%d pairs", len(pairs))
	}
}
