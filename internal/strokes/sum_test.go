package strokes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	side   = 8
	pixels = side * side
)

// schema is that of images of 8 x 8 pixels, whose privacy unit may be a column: that of images cannot, but the bound
// has to hold for any number of records of a unit.
func schema(t testing.TB, unit string) *partition.Schema {
	text := "columns:\n"
	for i := range pixels {
		text += fmt.Sprintf("  - {name: p%d, kind: integer, lower: 0, upper: 255}\n", i)
	}
	s := questiontest.Schema(t, text+"  - {name: y, kind: categorical, categories: [p, q, none]}\nlabel: y\n", unit)
	s.Image = &shape
	return s
}

var shape = partition.Image{Height: side, Width: side, Channels: 1}

// bar draws an image with a bright row, of class 0, or column, of class 1, as cells of the schema.
func bar(rng *rand.Rand) []float64 {
	cells, class, at := make([]float64, pixels+1), rng.IntN(2), rng.IntN(side)
	for i := range pixels {
		cells[i] = float64(rng.IntN(60))
		if class == 0 && i/side == at || class == 1 && i%side == at {
			cells[i] += 150
		}
	}
	cells[pixels] = float64(class)
	return cells
}

func units(t testing.TB, unit string, n int, belongs func(unit int) bool) *partition.Table {
	t.Helper()
	return questiontest.Units(t, schema(t, unit), n, belongs, bar)
}

// asked is a question for n random directions, of this spread.
func asked(bound uint64, n int, spread float64, change func(q *conclavev1.StrokeSum)) *conclavev1.StrokeSum {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	mean, matrix := make([]float32, perChannel), make([]float32, n*perChannel)
	for i := range mean {
		mean[i] = 0.1 * rng.Float32()
	}
	for i := range matrix {
		matrix[i] = float32(spread * rng.NormFloat64())
	}
	q := &conclavev1.StrokeSum{Mean: safetensors.Bytes(mean), Directions: safetensors.Bytes(matrix), Bound: bound}
	if change != nil {
		change(q)
	}
	return q
}

func cases() questiontest.Cases {
	type of = *conclavev1.StrokeSum
	c := questiontest.Cases{
		Units: units,
		Good: map[string]proto.Message{
			"all":        asked(1<<16, 6, 1, nil),
			"coarse":     asked(1<<8, 6, 1, nil),
			"fine":       asked(1<<20, 6, 1, nil),
			"one":        asked(1<<16, 1, 1, nil),
			"other ones": asked(1<<16, 7, 1, nil),
		},
		Zeros:       map[string]proto.Message{"nothing": asked(1<<16, 6, 1, func(q of) { q.Nothing = true })},
		Bad:         map[string]questiontest.Bad{},
		Adversaries: adversaries(),
	}
	for _, spread := range []float64{0, 1e-30, 1, 3e37} {
		for _, bound := range []uint64{1 << 8, 1 << 20} {
			c.Bounds = append(c.Bounds, asked(bound, 6, spread, nil))
		}
	}
	bad := func(name, want string, change func(q of)) {
		c.Bad[name] = questiontest.Bad{Params: asked(1<<16, 6, 1, change), Want: want}
	}
	bad("no bound", "bound of strokes is 0; use 256 to 1048576", func(q of) { q.Bound = 0 })
	bad("large bound", "bound of strokes is 1048577", func(q of) { q.Bound = 1<<20 + 1 })
	bad("absurd bound", "bound of strokes is 18446744073709551615", func(q of) { q.Bound = math.MaxUint64 })
	bad("no mean", "the mean of 0 strokes, and images of this schema have 569", func(q of) { q.Mean = nil })
	bad("no directions", "directions of 0 numbers", func(q of) { q.Directions = nil })
	bad("a number less", "directions of 3413 numbers", func(q of) { q.Directions = q.Directions[4:] })
	bad("half a number", "are not a whole number of float32 values", func(q of) { q.Directions = q.Directions[2:] })
	bad("too many", "use 1 to 300", func(q of) {
		q.Directions = slices.Repeat(q.Directions, 51)
	})
	bad("NaN", "is not finite", func(q of) {
		copy(q.Directions, safetensors.Bytes([]float32{float32(math.NaN())}))
	})
	return c
}

// adversaries are units of images unlike photographs.
func adversaries() []questiontest.Adversary {
	image := func(of func(y, x int) float64, class float64) func(int) []float64 {
		return func(int) []float64 {
			cells := make([]float64, pixels+1)
			for i := range pixels {
				cells[i] = of(i/side, i%side)
			}
			cells[pixels] = class
			return cells
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	return []questiontest.Adversary{
		{Name: "black", Records: 1, Record: image(func(int, int) float64 { return 0 }, 0)},
		{Name: "white", Records: 1, Record: image(func(int, int) float64 { return 255 }, 2)},
		{Name: "a checkerboard", Records: 1, Record: image(func(y, x int) float64 {
			return float64(255 * ((x + y) % 2))
		}, 1)},
		{Name: "one pixel", Records: 1, Record: image(func(y, x int) float64 {
			if y == 3 && x == 3 {
				return 255
			}
			return 0
		}, 0)},
		{Name: "700 steps", Records: 700, Record: image(func(y, _ int) float64 { return float64(255 * (y / 4)) }, 1)},
		{Name: "3 that do not divide the bound", Records: 3, Record: image(func(_, x int) float64 {
			return float64(30 * x)
		}, 0)},
		{Name: "64 at random", Records: 64, Record: func(int) []float64 { return bar(rng) }},
	}
}

func TestSumIsAKind(t *testing.T) { questiontest.Run(t, Sum, cases()) }

func FuzzSum(f *testing.F) { questiontest.Fuzz(f, Sum, cases()) }

// Vectors have the length 1, and what they add to a sum has as well: nothing of the bound is given away.
func TestTermsHaveTheNormOne(t *testing.T) {
	q := asked(1<<16, 20, 1, nil)
	mean, err := safetensors.Floats(q.Mean)
	testkit.Must(t, err)
	matrix, err := safetensors.Floats(q.Directions)
	testkit.Must(t, err)
	d, err := NewDirections(&shape, 3, mean, matrix)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, 50*pixels)
	for i := range x {
		x[i] = rng.Float32()
	}
	all, values := d.Vectors().Of(x, 50), make([]float64, d.triangle()+d.Width())
	for i := range 50 {
		terms(values, all[i*d.Width():(i+1)*d.Width()])
		var squares float64
		for _, v := range values {
			squares += v * v
		}
		if math.Abs(squares-1) > 1e-5 {
			t.Errorf("image %d adds a vector of norm %v", i, math.Sqrt(squares))
		}
	}
}

// A sum that is read has the products and the vectors of its records.
func TestSumsAreReadAsTheyWereAdded(t *testing.T) {
	d, err := NewDirections(&shape, 2, make([]float32, perChannel), make([]float32, 2*perChannel))
	testkit.Must(t, err)
	z, values := []float32{0.6, -0.8, 0.5}, make([]float64, d.triangle()+d.Width())
	terms(values, z)
	const bound = 1 << 20
	steps := make([]int64, d.Entries())
	for i, v := range values[:d.triangle()] {
		steps[i] = int64(v * bound)
	}
	for i, v := range values[d.triangle():] { // of class 1
		steps[d.triangle()+d.Width()+i] = int64(v * bound)
	}
	products, classes, err := d.Sums(steps, bound)
	testkit.Must(t, err)
	for i, a := range z {
		for j, b := range z {
			if got := products[i*3+j]; math.Abs(got-float64(a*b)) > 1e-5 {
				t.Errorf("the product of %d and %d is %v, want %v", i, j, got, a*b)
			}
		}
		if classes[i] != 0 || math.Abs(classes[3+i]-float64(a)) > 1e-5 {
			t.Errorf("number %d is %v and %v by class, want 0 and %v", i, classes[i], classes[3+i], a)
		}
	}
	if _, _, err := d.Sums(steps[1:], bound); err == nil {
		t.Error("a sum of another length is read")
	}
}

// Brightness that rises to the right is a stroke of that turn alone, in all cells that it is in.
func TestStrokesAreThoseOfTheImage(t *testing.T) {
	x := make([]float32, pixels)
	for i := range x {
		x[i] = float32(i%side) / side
	}
	got := Of(shape, x)
	sums := make([]float32, turns)
	for k := range sums {
		for _, v := range got[k*cells*cells : (k+1)*cells*cells] {
			sums[k] += v
		}
	}
	if sums[0] <= sums[1] || sums[1] <= 0 || sums[4] != 0 || sums[2] > 1e-5 ||
		math.Abs(float64(sums[1]-sums[7])) > 1e-4 {
		t.Errorf("the turns have %v", sums)
	}
	black := Of(shape, make([]float32, pixels))
	if slices.Max(black) != 0 || slices.Min(black) != 0 {
		t.Error("a black image has strokes")
	}
}
