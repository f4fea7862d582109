package picture

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

func TestCorrelationsByHand(t *testing.T) {
	s, err := partition.ParseSchema([]byte(`name: tiny
columns:
  - {name: a, kind: continuous, lower: 0, upper: 10}
  - {name: word, kind: categorical, categories: [x, y]}
  - {name: b, kind: continuous, lower: -10, upper: 10, nullable: true}
  - {name: c, kind: binary}
  - {name: d, kind: integer, lower: 3, upper: 4}
`))
	testkit.Must(t, err)
	table := partition.NewTable(s)
	for _, cells := range [][]float64{{1, 0, -2, 0, 3}, {2, 1, -4, 0, 3}, {3, 0, -6, 1, 3}, {4, 0, math.NaN(), 1, 3}} {
		testkit.Must(t, table.Append(cells, ""))
	}
	c := NewCorrelations(table)
	if got := strings.Join(c.Columns, " "); got != "a b c d" {
		t.Fatalf("columns %s", got)
	}
	for _, w := range []struct {
		i, j int
		want float64
	}{{1, 0, -1}, {2, 0, 2 / math.Sqrt(5)}, {2, 1, -math.Sqrt(3) / 2}, {3, 0, math.NaN()}} {
		if got := c.at(w.j, w.i); !(math.Abs(got-w.want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(w.want)) {
			t.Errorf("correlation of %s and %s is %v, want %v", c.Columns[w.i], c.Columns[w.j], got, w.want)
		}
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// If there are too many columns, the most informative ones are drawn.
func TestHeatMapsChoose(t *testing.T) {
	const columns = 100
	c := &Correlations{}
	for i := range columns {
		row := make([]float64, i)
		for j := range row {
			row[j] = math.NaN()
		}
		if i == 90 {
			row[7] = -0.9
		}
		c.Columns, c.Values = append(c.Columns, fmt.Sprintf("column %d", i)), append(c.Values, row)
	}
	h := NewHeatMaps(c, nil)
	if !h.Wide || len(h.Maps[0].Rows) != mapColumns-1 || !strings.Contains(h.LeftOut, "100 such columns") {
		t.Fatalf("wide %v, %d rows, %q", h.Wide, len(h.Maps[0].Rows), h.LeftOut)
	}
	if !strings.Contains(h.Maps[0].Summary, "column 7 and column 90: −0.90") {
		t.Errorf("the map lacks the one pair with a correlation: %s", h.Maps[0].Summary)
	}
}
