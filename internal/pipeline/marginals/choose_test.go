package marginals

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
)

// A column that follows from another is found in nearly every draw of the noise: where it is not, a ninth of
// the rows are in cells that no record has. A table of columns that are apart keeps its cells.
func TestColumnsThatFollowAreFound(t *testing.T) {
	const n, deviation, records = 16, 70.0, 32_000.0
	for name, c := range map[string]struct {
		count      func(row, column int) float64
		from, upTo int // of 200 draws
	}{
		"follows": {func(row, column int) float64 {
			if (row*5+3)%n == column {
				return records / n
			}
			return 0
		}, 195, 200},
		"apart": {func(int, int) float64 { return records / (n * n) }, 0, 0},
		"nearly apart": {func(row, column int) float64 {
			if row == column {
				return 3 * records / (n * n)
			}
			return records / (n * n)
		}, 0, 0},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		found := 0
		for range 200 {
			m := &tree.Measured{Columns: []int{0, 1}, Variance: deviation * deviation}
			for i := range n * n {
				m.Counts = append(m.Counts, c.count(i/n, i%n)+deviation*rng.NormFloat64())
			}
			if sparse(m, n, n, records) != nil {
				found++
			}
		}
		if found < c.from || found > c.upTo {
			t.Errorf("%s: found in %d of 200 draws, want %d to %d", name, found, c.from, c.upTo)
		}
	}
}
