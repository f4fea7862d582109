package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
)

// Matrices at the ends of readable memory: a read or write beyond would be fatal.
// Gaps of C stay as they are, and gaps of A and B have no say.
func TestGemmAtTheEndsOfMemory(t *testing.T) {
	const most = 350 * 350
	memoryA, memoryB, memoryC, memoryBias := kerneltest.NewMemory(t, most), kerneltest.NewMemory(t,
		most), kerneltest.NewMemory(t, most), kerneltest.NewMemory(t, 1100)
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
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
			a, b := memoryA.Draw(rng, m, k, rng.IntN(2) == 0), memoryB.Draw(rng, k, n, rng.IntN(2) == 0)
			c := memoryC.Draw(rng, m, n, false)
			e := Epilogue{Add: rng.IntN(2) == 0, Leak: []float32{0, 0.2, 1}[rng.IntN(3)]}
			if !e.Add && rng.IntN(2) == 0 {
				e.Bias = memoryBias.Draw(rng, 1, n, false).Data[:n]
			}
			want, scale := reference(c, a, b, e)
			if parts := 1 + rng.IntN(4); parts == 1 {
				Multiply(c, a, b, e)
			} else {
				for part := range parts {
					MultiplyPart(c, a, b, e, part, parts)
				}
			}
			for at, got := range c.Data {
				i, j := at/c.Stride, at%c.Stride
				if j >= n {
					if math.Float32bits(got) != math.Float32bits(float32(math.NaN())) {
						t.Fatalf("%d x %d x %d: wrote beyond row %d", m, n, k, i)
					}
					continue
				}
				if bound := (float64(k) + 2) * 0x1p-24 * scale[i*n+j]; !(math.Abs(float64(got)-want[i*n+j]) <= bound) {
					t.Fatalf("%d x %d x %d: element (%d, %d) is %v, want %v within %v",
						m, n, k, i, j, got, want[i*n+j], bound)
				}
			}
		}
	})
}
