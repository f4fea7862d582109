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
	// Weights are the rows', of any mean, none negative; nil where all weigh the same.
	Weights []float64            `json:"-"`
	of      [2]*partition.Column // nil for plain numbers
}

// MaxPoints is the most that a panel shows: more are a blot, and the page is to be small
// enough to be sent by mail.
const MaxPoints = 2000

// NewPanel takes rows of a table, by the first two columns of its schema that are numbers:
// all, or MaxPoints that a fixed seed chooses. Rows with an empty cell in one of the two are
// left out. It gives nil where there are no two such columns or no such row, and of images.
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
	// The rows of a file may be sorted, so that the first ones are not like the others.
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

// numbers are the places of the columns that are numbers and stand for nothing else.
func numbers(s *partition.Schema) (places []int) {
	for j, c := range s.Columns {
		if c.Role == partition.RoleNone && (c.Kind == partition.Continuous || c.Kind == partition.Integer) {
			places = append(places, j)
		}
	}
	return places
}

// CheckPanels refuses panels that cannot be drawn beside each other.
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
