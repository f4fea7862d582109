package picture

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

// Panel is a picture of rows: a point for each, by two columns of numbers. With Real it
// shows real rows: NOT PRIVATE.
type Panel struct {
	Name    string    `json:"name"`
	Columns [2]string `json:"columns"`
	Real    bool      `json:"real,omitempty"`
	// X and Y are the rows' numbers in the two columns.
	X, Y []float64 `json:"-"`
	// Weights are the rows' weights, of any mean, none negative; nil if all rows count the same.
	Weights []float64            `json:"-"`
	of      [2]*partition.Column // nil for plain numbers
}

// MaxPoints is the largest number of points in a panel. More points run together, and the page must stay small
// enough for mail.
const MaxPoints = 2000

// NewPanel takes rows of a table, by the first two numeric columns of its schema: all rows, or MaxPoints that a
// fixed seed chooses. It leaves out rows with an empty cell in one of the two. It returns nil without two such
// columns or without such a row, and for images.
func NewPanel(name string, t *partition.Table, real bool) *Panel {
	columns := numbers(t.Schema())
	if len(columns) < 2 || t.Schema().Image != nil {
		return nil
	}
	x, y := columns[0], columns[1]
	p := &Panel{Name: name, Real: real}
	for i, j := range columns[:2] {
		p.of[i] = &t.Schema().Columns[j]
		p.Columns[i] = p.of[i].Name
	}
	weights := t.Weights()
	// The rows of a file may be sorted, so the first ones may not be typical.
	for _, i := range rand.New(rand.NewPCG(1, 0x907)).Perm(t.Len()) {
		cells := t.Cells(i)
		if math.IsNaN(cells[x]) || math.IsNaN(cells[y]) {
			continue
		}
		p.X, p.Y = append(p.X, cells[x]), append(p.Y, cells[y])
		if weights != nil {
			p.Weights = append(p.Weights, weights[i])
		}
		if len(p.X) == MaxPoints {
			break
		}
	}
	if len(p.X) == 0 {
		return nil
	}
	return p
}

// numbers are the positions of the columns that are numbers and have no other role.
func numbers(s *partition.Schema) (places []int) {
	for j, c := range s.Columns {
		if c.Role == partition.RoleNone && (c.Kind == partition.Continuous || c.Kind == partition.Integer) {
			places = append(places, j)
		}
	}
	return places
}

// CheckPanels refuses panels that cannot be drawn next to each other.
func CheckPanels(panels []Panel) error {
	for _, panel := range panels {
		n := len(panel.X)
		if n == 0 || n > MaxPoints || len(panel.Y) != n || panel.Weights != nil && len(panel.Weights) != n {
			return fmt.Errorf("panel %q: %d and %d numbers, %d weights; want 1 to %d of each", panel.Name, n,
				len(panel.Y), len(panel.Weights), MaxPoints)
		}
		if panel.Columns != panels[0].Columns {
			return fmt.Errorf("panel %q is of the columns %q, panel %q of %q", panel.Name, panel.Columns,
				panels[0].Name, panels[0].Columns)
		}
		for i := range n {
			if !text.Finite(panel.X[i]) || !text.Finite(panel.Y[i]) {
				return fmt.Errorf("panel %q: point %d is not finite", panel.Name, i)
			}
		}
		for i, w := range panel.Weights {
			if !text.Finite(w) || w < 0 {
				return fmt.Errorf("panel %q: point %d has the weight %v", panel.Name, i, w)
			}
		}
	}
	return nil
}
