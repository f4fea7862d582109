package picture

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// HeatMaps are the pictures of how columns go together.
type HeatMaps struct {
	Maps       []heatMap
	Wide       bool   // one below the other
	LeftOut    string // sentence about columns that are not drawn
	NotPrivate bool
}

// heatMap is a triangle: each pair of columns once, none with itself.
type heatMap struct {
	Title         string
	Real          bool // computed from real rows
	Width, Height float64
	Rows          []heatLabel
	Under         []heatLabel
	Cells         []heatCell
	Summary       string
}

type heatLabel struct {
	X, Y       float64
	Text, Full string
}

type heatCell struct {
	D       string // the path of the square
	Sign    string // class: plus, minus, none
	Opacity string
	Full    string
	X, Y    float64
	Text    string // the figure, if there is room for it
}

const (
	mapColumns    = 30   // more are not legible
	narrowColumns = 14   // up to here, maps stand side by side
	letter        = 7.4  // width of a wide font's letter, on average
	deepest       = 0.75 // opacity of a correlation of 1, which text can be read on
)

// NewHeatMaps draws real, synthetic and difference if the evaluation has correlations, else only the synthetic
// table's; nil without a pair of columns.
func NewHeatMaps(alone *Correlations, e *evaluate.Evaluation) *HeatMaps {
	real, synthetic := pairCorrelations(e)
	by := alone
	if real != nil {
		by = synthetic.minus(real)
	}
	if by == nil || len(by.Columns) < 2 {
		return nil
	}
	h := &HeatMaps{NotPrivate: real != nil}
	columns := by.strongest(mapColumns)
	h.Wide = len(columns) > narrowColumns
	if n := len(by.Columns); n > len(columns) {
		why := "the strongest correlations"
		if real != nil {
			why = "the largest differences"
		}
		h.LeftOut = fmt.Sprintf(
			"The table has %d such columns. For readability, the picture shows the %d with %s.", n,
			len(columns), why)
	}
	draw := func(title string, c *Correlations, isReal bool) {
		h.Maps = append(h.Maps, newHeatMap(title, c.keep(columns), isReal, h.Wide))
	}
	if real == nil {
		draw("Synthetic rows", alone, false)
		return h
	}
	draw("Real rows", real, true)
	draw("Synthetic rows", synthetic, false)
	draw("Difference", by, true)
	return h
}

func newHeatMap(title string, c *Correlations, real, wide bool) heatMap {
	m := heatMap{Title: title, Real: real, Width: 320}
	longest := 13
	if wide {
		m.Width, longest = 720, 18
	}
	n := len(c.Columns)
	left, under := 0, 0
	for i, name := range c.Columns {
		length := min(longest, len([]rune(name)))
		if i > 0 {
			left = max(left, length)
		}
		if i < n-1 {
			under = max(under, length)
		}
	}
	room := 14 + letter*float64(left)
	side := math.Min(48, math.Floor((m.Width-room)/float64(n-1)))
	m.Height = side*float64(n-1) + 18 + letter*float64(under)*math.Sqrt2/2
	strongest, pair := -1.0, ""
	for i := 1; i < n; i++ {
		top := float64(i-1) * side
		m.Rows = append(m.Rows, heatLabel{X: room - 6, Y: top + side/2 + 4, Text: text.Shorten(c.Columns[i], longest),
			Full: c.Columns[i]})
		for j := range i {
			x := room + float64(j)*side
			v := c.Values[i][j]
			cell := heatCell{
				D:    fmt.Sprintf("M%.1f %.1fh%gv%gh-%gz", x+0.5, top+0.5, side-1, side-1, side-1),
				Full: c.Columns[j] + " and " + c.Columns[i] + ": ", X: x + side/2, Y: top + side/2 + 4,
			}
			switch {
			case math.IsNaN(v):
				cell.Sign, cell.Full = "none", cell.Full+"not known"
			default:
				cell.Sign = "plus"
				if v < 0 {
					cell.Sign = "minus"
				}
				cell.Opacity = strings.TrimPrefix(fmt.Sprintf("%.2f", deepest*math.Min(1, math.Abs(v))), "0")
				cell.Full += text.Correlation(v)
				if side >= 30 {
					cell.Text = strings.Replace(text.Correlation(v), "0.", ".", 1)
				}
				if math.Abs(v) > strongest {
					strongest, pair = math.Abs(v), cell.Full
				}
			}
			m.Cells = append(m.Cells, cell)
		}
	}
	for j := range n - 1 {
		m.Under = append(m.Under, heatLabel{
			X: room + (float64(j)+0.5)*side + 3, Y: side*float64(n-1) + 12, Text: text.Shorten(c.Columns[j], longest),
			Full: c.Columns[j],
		})
	}
	m.Summary = fmt.Sprintf("Correlations of %d columns, %s.", n, strings.ToLower(title))
	if pair != "" {
		m.Summary += " The largest figure is that of " + pair + "."
	}
	return m
}
