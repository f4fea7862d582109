package discriminator

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// specs are discriminators of all kinds, small.
func specs() map[string]Spec {
	table := Spec{Features: 5, Numbers: []int{0, 3}, Classes: 3, Kind: Dense, Hidden: 7, Layers: 1}
	image := Spec{Features: 8 * 8 * 2, Image: nn.Shape{Height: 8, Width: 8, Channels: 2}, Classes: 3, Kind: Dense,
		Hidden: 7, Layers: 1}
	of := func(s Spec, change func(*Spec)) Spec {
		change(&s)
		return s
	}
	return map[string]Spec{
		"told":             table,
		"each":             of(table, func(s *Spec) { s.Each = true }),
		"linear":           of(table, func(s *Spec) { s.Layers, s.Each = 0, true }),
		"standard":         of(table, func(s *Spec) { s.Standard, s.Each = true, true }),
		"pieces":           of(table, func(s *Spec) { s.Pieces, s.Each, s.Layers = true, true, 0 }),
		"fourier":          of(table, func(s *Spec) { s.Pieces, s.Fourier, s.Seed = true, 20, 3 }),
		"pixels":           image,
		"cosines":          of(image, func(s *Spec) { s.Cosines = 3 * 3 * 2 }),
		"convolution":      of(image, func(s *Spec) { s.Kind, s.Hidden, s.Layers = Convolution, 4, 2 }),
		"convolution each": of(image, func(s *Spec) { s.Kind, s.Hidden, s.Layers, s.Each = Convolution, 4, 2, true }),
	}
}

// made is a discriminator with random weights and units, and records for it.
func made(t *testing.T, s Spec) (d *Discriminator, x []float32, classes []int) {
	t.Helper()
	d, err := New(s, rng(1))
	testkit.Must(t, err)
	w, r := d.Weights(), rng(2)
	for i := range w {
		w[i] = float32(r.NormFloat64()) / 3
	}
	testkit.Must(t, d.SetWeights(w))
	classes = []int{2, 0, 1, 1}
	x = make([]float32, len(classes)*s.Features)
	for i := range x {
		x[i] = r.Float32()
	}
	if s.Standard {
		units, err := scaling.New(x, classes, s.Features, s.Classes, s.Numbers)
		testkit.Must(t, err)
		// Units of one record would be narrow: wide ones keep all within reach.
		mean, scale := units.Units()
		for i := range scale {
			scale[i] = 2
		}
		if units, err = scaling.FromUnits(mean, scale, s.Features, s.Classes, s.Numbers); err != nil {
			t.Fatal(err)
		}
		d.SetUnits(units)
	}
	return d, x, classes
}

// Slopes are those of finite differences of the scores.
func TestSlopesAreThoseOfScores(t *testing.T) {
	for name, s := range specs() {
		t.Run(name, func(t *testing.T) {
			d, x, classes := made(t, s)
			up := []float32{1, -2, 0.5, 3}
			d.Scores(x, classes)
			slope := slices.Clone(d.Slope(up))
			value := func() (sum float64) {
				for i, v := range d.Scores(x, classes) {
					sum += float64(up[i] * v)
				}
				return sum
			}
			const h = 1e-3
			for i := 0; i < len(x); i += 1 + len(x)/40 {
				old := x[i]
				x[i] = old + h
				above := value()
				x[i] = old - h
				below := value()
				x[i] = old
				if want := (above - below) / (2 * h); math.Abs(float64(slope[i])-want) > 0.02+0.02*math.Abs(want) {
					t.Errorf("slope by number %d is %v, differences say %v", i, slope[i], want)
				}
			}
		})
	}
}

// A score depends on the class, and on no other record.
func TestScoresAreOfOneRecordAndItsClass(t *testing.T) {
	for name, s := range specs() {
		d, x, classes := made(t, s)
		all := slices.Clone(d.Scores(x, classes))
		for i, c := range classes {
			row := x[i*s.Features : (i+1)*s.Features]
			if alone := d.Scores(row, []int{c})[0]; math.Abs(float64(alone-all[i])) > 1e-4 {
				t.Errorf("%s: record %d scores %v alone and %v among others", name, i, alone, all[i])
			}
			if other := d.Scores(row, []int{(c + 1) % s.Classes})[0]; other == all[i] {
				t.Errorf("%s: record %d scores %v whatever its class", name, i, other)
			}
		}
	}
}

// Weights travel to another discriminator of the same spec.
func TestWeightsTravel(t *testing.T) {
	for name, s := range specs() {
		d, x, classes := made(t, s)
		again, err := New(s, rng(9))
		testkit.Must(t, err)
		testkit.Must(t, again.SetWeights(d.Weights()))
		again.SetUnits(d.Units())
		if !slices.Equal(d.Scores(x, classes), again.Scores(x, classes)) {
			t.Errorf("%s: the same weights score otherwise", name)
		}
		if clone, err := d.Clone(); err != nil ||
			!slices.Equal(slices.Clone(clone.Scores(x, classes)), d.Scores(x, classes)) {
			t.Errorf("%s: a clone scores otherwise, or %v", name, err)
		}
		if n := len(d.Weights()); n != d.Parameters() {
			t.Errorf("%s: %d weights of %d", name, n, d.Parameters())
		}
		short, broken := d.Weights()[1:], d.Weights()
		broken[3] = float32(math.NaN())
		if again.SetWeights(short) == nil || again.SetWeights(broken) == nil {
			t.Errorf("%s: weights too few, or not finite, were taken", name)
		}
	}
}

// Check counts the size of the network correctly.
func TestSizeIsCountedRight(t *testing.T) {
	for name, s := range specs() {
		d, _, _ := made(t, s)
		if got := s.Parameters(); got != d.Parameters() {
			t.Errorf("%s: %d weights counted of %d", name, got, d.Parameters())
		}
	}
}

func TestSpecsAreChecked(t *testing.T) {
	table, image := specs()["told"], specs()["convolution"]
	for name, c := range map[string]struct {
		of     Spec
		change func(*Spec)
		says   string
	}{
		"no features":          {table, func(s *Spec) { s.Features = 0 }, "0 features"},
		"no classes":           {table, func(s *Spec) { s.Classes = 0 }, "0 classes"},
		"no kind":              {table, func(s *Spec) { s.Kind = "" }, "use dense or convolution"},
		"no units":             {table, func(s *Spec) { s.Hidden = 0 }, "0 units"},
		"too many layers":      {table, func(s *Spec) { s.Layers = 17 }, "use 0 to 16"},
		"too large":            {table, func(s *Spec) { s.Hidden = 65536; s.Layers = 4 }, "more than 131072 weights"},
		"convolved table":      {table, func(s *Spec) { s.Kind = Convolution }, "needs images"},
		"cosines of a table":   {table, func(s *Spec) { s.Cosines = 4 }, "for images only"},
		"a standard image":     {image, func(s *Spec) { s.Standard = true }, "for tables only"},
		"convolved cosines":    {image, func(s *Spec) { s.Cosines = 8 }, "sees pixels"},
		"too many halvings":    {image, func(s *Spec) { s.Layers = 4 }, "cannot be halved"},
		"no convolution":       {image, func(s *Spec) { s.Layers = 0 }, "at least one layer"},
		"too many channels":    {image, func(s *Spec) { s.Hidden = 512 }, "more than 131072 weights"},
		"an image cut":         {image, func(s *Spec) { s.Features-- }, "all pixels"},
		"cosines not a square": {specs()["cosines"], func(s *Spec) { s.Cosines = 10 }, "do not form a square"},
	} {
		s := c.of
		c.change(&s)
		if _, err := New(s, rng(1)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
}

// No gradient of a linear discriminator is longer than its reach, whatever the record.
func TestReachBoundsGradients(t *testing.T) {
	base := Spec{Features: 7, Numbers: []int{0, 1}, Classes: 2, Kind: Dense}
	for name, change := range map[string]func(*Spec){
		"plain":   func(*Spec) {},
		"each":    func(s *Spec) { s.Each = true },
		"pieces":  func(s *Spec) { s.Pieces = true },
		"fourier": func(s *Spec) { s.Pieces, s.Fourier, s.Each = true, 50, true },
	} {
		s := base
		change(&s)
		d, err := New(s, rng(1))
		testkit.Must(t, err)
		const choices = 3 // columns 2, 3 to 5 and 6
		reach, longest, r := s.Reach(choices), 0.0, rng(4)
		for range 2000 {
			x := []float32{r.Float32(), r.Float32(), float32(r.IntN(2)), 0, 0, 0, float32(r.IntN(2))}
			if r.IntN(3) == 0 {
				x[0], x[1] = float32(r.IntN(2)), float32(r.IntN(2))
			}
			x[3+r.IntN(3)] = 1
			for _, p := range d.Net.Params() {
				clear(p.Grad)
				for i := range p.Value {
					p.Value[i] = float32(r.NormFloat64()) * 3
				}
			}
			scores := d.Scores(x, []int{r.IntN(2)})
			grad := make([]float32, 1)
			if r.IntN(2) == 0 {
				losses.Logistic(grad, scores, true)
			} else {
				losses.Wasserstein(grad, scores, true)
			}
			d.Backward(grad)
			var squares float64
			for _, p := range d.Net.Params() {
				for _, v := range p.Grad {
					squares += float64(v) * float64(v)
				}
			}
			longest = math.Max(longest, math.Sqrt(squares))
		}
		if longest > reach*(1+1e-6) || longest < 0.6*reach {
			t.Errorf("%s: a gradient of norm %v, the bound is %v", name, longest, reach)
		}
	}
	if s := base; s.Reach(3) == 0 {
		t.Error("no bound")
	}
	deep := base
	deep.Layers, deep.Hidden = 1, 3
	if deep.Reach(3) != 0 {
		t.Error("a hidden layer has a bound")
	}
}
