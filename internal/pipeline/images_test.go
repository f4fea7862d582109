package pipeline

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/idx"
)

// imageModel is an untrained model of grey images.
func imageModel(t testing.TB, side int) *NetworkModel {
	t.Helper()
	s, err := partition.ParseSchema(fmt.Appendf(nil, `label: digit
format: idx
image: {height: %d, width: %d, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: %d}
  - {name: digit, kind: categorical, categories: ["0", "1", "2", "3"]}
`, side, side, side*side))
	testkit.Must(t, err)
	g, err := NewGenerator(encode.New(s), GeneratorSpec{Noise: 16, Hidden: 64, Layers: 2, Classes: 4},
		rand.New(rand.NewPCG(1, 1)))
	testkit.Must(t, err)
	m, err := NewNetwork(s, g, []float64{0.25, 0.25, 0.25, 0.25})
	testkit.Must(t, err)
	return m
}

// A model of images draws whole pixels that make images, the same after it was
// saved, and images of one class where that is asked for.
func TestAModelOfImages(t *testing.T) {
	m, dir := imageModel(t, 28), filepath.Join(t.TempDir(), "model")
	testkit.Must(t, m.Save(dir))
	loaded, err := loaded(dir)
	testkit.Must(t, err)
	table, err := loaded.Sample(50, []Condition{{"digit", "=", "3"}}, rand.New(rand.NewPCG(2, 2)))
	testkit.Must(t, err)
	x, err := idx.FromTable(table)
	testkit.Must(t, err)
	seen := map[byte]bool{}
	for i := range x.Len() {
		for j, p := range x.Image(i) {
			if table.Cells(i)[j] != float64(p) {
				t.Fatalf("pixel %d of image %d is %v, not a whole number from 0 to 255", j, i, table.Cells(i)[j])
			}
			seen[p] = true
		}
	}
	if x.Len() != 50 || x.Classes[0] != 3 || x.Classes[49] != 3 || len(seen) < 100 {
		t.Errorf("%d images of class %d with %d different pixels", x.Len(), x.Classes[0], len(seen))
	}
}
