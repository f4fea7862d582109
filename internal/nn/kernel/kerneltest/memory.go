package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

// Memory is memory for a matrix that reaches to an end of readable memory.
type Memory struct{ pages []float32 }

// NewMemory returns memory for a matrix of so many numbers. It skips the test where the
// system cannot protect memory.
func NewMemory(t *testing.T, numbers int) *Memory {
	t.Helper()
	pages, release, err := Pages(numbers/1024 + 1)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(release)
	return &Memory{pages}
}

// Draw fills a matrix of ordinary numbers, which begins or ends with the memory.
// Gaps hold NaN, and after the last row there is none.
func (m *Memory) Draw(rng *rand.Rand, rows, cols int, transposed bool) kernel.Matrix {
	inner, outer := cols, rows
	if transposed {
		inner, outer = rows, cols
	}
	stride := inner + rng.IntN(4)
	n := max(0, (outer-1)*stride) + inner
	if outer == 0 {
		n = 0
	}
	data := m.pages[:n:n]
	if rng.IntN(2) == 0 {
		data = m.pages[len(m.pages)-n:]
	}
	for i := range data {
		data[i] = float32(math.NaN())
		if i%max(1, stride) < inner {
			data[i] = float32(rng.NormFloat64())
		}
	}
	return kernel.Matrix{Data: data, Rows: rows, Cols: cols, Stride: stride, Transposed: transposed}
}
