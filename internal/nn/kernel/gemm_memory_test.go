package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// lonely is memory for a matrix that reaches to an end of readable memory.
type lonely struct{ pages []float32 }

func newLonely(t *testing.T, numbers int) *lonely {
	t.Helper()
	pages, release, err := lonePages(numbers/1024 + 1)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(release)
	return &lonely{pages}
}

// draw fills a matrix of ordinary numbers, which begins or ends with the memory.
// Gaps hold NaN, and after the last row there is none.
func (l *lonely) draw(rng *rand.Rand, rows, cols int, transposed bool) Matrix {
	inner, outer := cols, rows
	if transposed {
		inner, outer = rows, cols
	}
	stride := inner + rng.IntN(4)
	n := max(0, (outer-1)*stride) + inner
	if outer == 0 {
		n = 0
	}
	data := l.pages[:n:n]
	if rng.IntN(2) == 0 {
		data = l.pages[len(l.pages)-n:]
	}
	for i := range data {
		data[i] = nan
		if i%max(1, stride) < inner {
			data[i] = float32(rng.NormFloat64())
		}
	}
	return Matrix{Data: data, Rows: rows, Cols: cols, Stride: stride, Transposed: transposed}
}

// Matrices at the ends of readable memory: a read or write beyond would be fatal.
// Gaps of C stay as they are, and gaps of A and B have no say.
func TestGemmAtTheEndsOfMemory(t *testing.T) {
	const most = 350 * 350
	memoryA, memoryB, memoryC, memoryBias := newLonely(t, most), newLonely(t, most), newLonely(t, most), newLonely(t, 1100)
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	atEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		size := func() int {
			switch rng.IntN(20) {
			case 0:
				return 255 + rng.IntN(80) // beyond a block of A and B
			case 1, 2, 3:
				return rng.IntN(130)
			}
			return rng.IntN(40)
		}
		for range rounds {
			m, n, k := size(), size(), size()
			if rng.IntN(20) == 0 {
				m, n, k = min(m, 40), 980+rng.IntN(100), min(k, 40)
			}
			a, b := memoryA.draw(rng, m, k, rng.IntN(2) == 0), memoryB.draw(rng, k, n, rng.IntN(2) == 0)
			c := memoryC.draw(rng, m, n, false)
			e := Epilogue{Add: rng.IntN(2) == 0, Leak: []float32{0, 0.2, 1}[rng.IntN(3)]}
			if !e.Add && rng.IntN(2) == 0 {
				e.Bias = memoryBias.draw(rng, 1, n, false).Data[:n]
			}
			want, scale := reference(c, a, b, e)
			if parts := 1 + rng.IntN(4); parts == 1 {
				Gemm(c, a, b, e)
			} else {
				for part := range parts {
					GemmPart(c, a, b, e, part, parts)
				}
			}
			for at, got := range c.Data {
				i, j := at/c.Stride, at%c.Stride
				if j >= n {
					if math.Float32bits(got) != math.Float32bits(nan) {
						t.Fatalf("%d x %d x %d: wrote beyond row %d", m, n, k, i)
					}
					continue
				}
				if bound := (float64(k) + 2) * 0x1p-24 * scale[i*n+j]; !(math.Abs(float64(got)-want[i*n+j]) <= bound) {
					t.Fatalf("%d x %d x %d: element (%d, %d) is %v, want %v within %v", m, n, k, i, j, got, want[i*n+j], bound)
				}
			}
		}
	})
}

// The same for the steps of a unit.
func TestUnitAtTheEndsOfMemory(t *testing.T) {
	const most = 40
	memory := make([]*lonely, 7)
	for i := range memory {
		memory[i] = newLonely(t, most*most)
	}
	atEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for rows := range most {
			for cols := range most {
				vector := func(i, n int) []float32 { return memory[i].draw(rng, 1, n, false).Data }
				x, dx, w, d := vector(0, rows*cols), vector(1, rows*cols), vector(2, cols), vector(3, rows)
				gw, gb, y := vector(4, cols), vector(5, cols), vector(6, rows)
				RowDots(y, x, w, 1)
				AddWeightedRows(gw, x, d)
				UnitGrad(dx, x, d, w, gw, gb, 0.2)
				AddRows(gb, x, rows, cols)
			}
		}
	})
}
