package classify

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestForestTriesTheRootOfTheColumns(t *testing.T) {
	for columns, want := range map[int]int{1: 1, 3: 1, 16: 4, 100: 10} {
		if got := rootOf(columns); got != want {
			t.Errorf("%d of %d columns are tried, want %d", got, columns, want)
		}
	}
}

// Of 16 columns all but one are constant, and four are tried at a node: more must be tried until one divides
// the rows.
func TestForestGoesOnWhereTheColumnsTriedAreConstant(t *testing.T) {
	r := Rows{X: Matrix{Rows: 40, Cols: 16, Data: make([]float64, 40*16)}}
	for i := range 40 {
		r.X.Data[i*16+11] = float64(i % 2)
		r.Positive = append(r.Positive, i%2 == 1)
	}
	rows, err := r.prepare()
	testkit.Must(t, err)
	for k, tree := range growBagged(rows, 100, 1, rootOf) {
		if len(tree) != 3 {
			t.Errorf("tree %d has %d nodes, want 3", k, len(tree))
		}
	}
}

func TestBoostingTakesTheFirstOfEqualColumns(t *testing.T) {
	r := Rows{X: Matrix{Rows: 200, Cols: 3}}
	for i := range 200 {
		v := float64(i * 37 % 200)
		r.X.Data = append(r.X.Data, 1, v, v)
		r.Positive = append(r.Positive, v+float64(i%7)*20 > 150)
	}
	rows, err := r.prepare()
	testkit.Must(t, err)
	splits := 0
	for _, tree := range growBoosted(rows) {
		for _, n := range tree {
			if n.Left != 0 {
				splits++
				if n.Column != 1 {
					t.Errorf("a split by column %d", n.Column)
				}
			}
		}
	}
	if splits == 0 {
		t.Error("nothing was split")
	}
}

func TestAdaBoostEndsWhereATreeMakesNoMistake(t *testing.T) {
	rows, err := Rows{X: Matrix{Rows: 4, Cols: 1, Data: []float64{1, 2, 3, 4}},
		Positive: []bool{false, false, true, true}}.prepare()
	testkit.Must(t, err)
	if grown := growStumps(rows, 50); len(grown) != 1 {
		t.Errorf("%d trees, want 1", len(grown))
	}
}
