package partition_test

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func TestAppendRefuses(t *testing.T) {
	s := partitiontest.Clinic(t)
	e := math.NaN()
	good := []float64{e, 0, 50, e, 3, e, e, 1}
	testkit.Must(t, partition.NewTable(s).Append(good, "p1"))
	with := func(i int, v float64) []float64 {
		cells := append([]float64(nil), good...)
		cells[i] = v
		return cells
	}
	for name, cells := range map[string][]float64{
		"too few":             good[:7],
		"cell of the unit":    with(0, 1),
		"empty site":          with(1, e),
		"category beyond":     with(1, 2),
		"category fraction":   with(1, 0.5),
		"integer fraction":    with(2, 1.5),
		"above":               with(2, 121),
		"infinite":            with(3, math.Inf(1)),
		"beyond clip":         with(4, 101),
		"negative category":   with(5, -1),
		"binary two":          with(6, 2),
		"empty label":         with(7, e),
		"empty, not nullable": with(4, e),
	} {
		table := partition.NewTable(s)
		if err := table.Append(cells, "p1"); err == nil || table.Len() != 0 {
			t.Errorf("%s: error %v, %d rows", name, err, table.Len())
		}
	}
	plain := partition.NewTable(partitiontest.Schema(t, "columns:\n  - {name: a, kind: binary}\n"))
	if err := plain.Append([]float64{1}, "p1"); err == nil {
		t.Errorf("a unit without a unit column is accepted")
	}
}
