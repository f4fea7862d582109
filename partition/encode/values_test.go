package encode_test

import (
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Values are where the encoder puts the whole numbers of a column.
func TestValues(t *testing.T) {
	s, err := partition.ParseSchema([]byte(`name: t
columns:
  - {name: a, kind: integer, lower: 2, upper: 6}
  - {name: b, kind: continuous, lower: 2, upper: 6}
  - {name: c, kind: integer, lower: 0, upper: 3, scale: log}
`))
	testkit.Must(t, err)
	e := encode.New(s)
	if got := e.Values(0, 5); !slices.Equal(got, []float32{0, 0.25, 0.5, 0.75, 1}) {
		t.Errorf("values %v of 2 to 6", got)
	}
	if e.Values(0, 4) != nil || e.Values(1, 100) != nil {
		t.Error("values of too many, or of no whole numbers")
	}
	if got := e.Values(2, 4); len(got) != 4 || got[0] != 0 || got[1] != 0.5 || got[3] != 1 {
		t.Errorf("values %v of 0 to 3 on a log scale", got)
	}
}
