package picture

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

// Scatter is the picture of rows before and after the stages of a run.
type Scatter struct {
	X, Y       string // the columns
	Panels     []scatterPanel
	NotPrivate bool
	Weighted   bool
	Most       int // points of a panel
}

type scatterPanel struct {
	Name          string
	Real          bool
	Width, Height float64
	Top, Inner    float64 // of the frame: where it begins, and its side
	Dots          []dots
	X, Y          string // under and over the square
	Summary       string
	Says          string
}

type dots struct {
	Size string // diameter
	D    string // the path, of lines without length
}

const (
	scatterSide   = 320 // of a panel's square
	scatterText   = 20  // height of a line of text
	scatterMargin = 5   // free within the square's edges
	dotSize       = 3.2 // diameter of a point of mean weight
	largestDot    = 3.  // times dotSize, at 9 times the mean weight
	labelLetters  = 38  // of a line of text
	dotSteps      = 8   // sizes up to dotSize; files with a size for each point are large
)

// NewScatter draws panels on the same axes; nil when there is none.
func NewScatter(panels []Panel) *Scatter {
	if len(panels) == 0 {
		return nil
	}
	s := &Scatter{X: panels[0].Columns[0], Y: panels[0].Columns[1], Most: MaxPoints}
	var xs, ys []float64
	for _, p := range panels {
		xs, ys = append(xs, p.X...), append(ys, p.Y...)
		s.NotPrivate = s.NotPrivate || p.Real
		s.Weighted = s.Weighted || p.Weights != nil
	}
	x, y := newAxis(s.X, panels[0].of[0], xs), newAxis(s.Y, panels[0].of[1], ys)
	for _, p := range panels {
		s.Panels = append(s.Panels, newScatterPanel(p, x, y))
	}
	return s
}

// axis is the range of a column that contains nearly all values; others are drawn at its ends.
type axis struct {
	low, high      float64
	name, from, to string
}

func newAxis(name string, of *partition.Column, values []float64) axis {
	list := make([]cell, len(values))
	for i, v := range values {
		list[i] = cell{v, 1 / float64(len(values))}
	}
	a := axis{name: name}
	a.low, a.high = trimmedRange(list)
	a.from, a.to = figure(of, a.low), figure(of, a.high)
	if slices.Min(values) < a.low {
		a.from = "≤ " + a.from
	}
	if slices.Max(values) > a.high {
		a.to = "≥ " + a.to
	}
	return a
}

// label says what the axis is, in one line.
func (a axis) label(arrow string) string {
	ends := fmt.Sprintf(" %s %s to %s", arrow, a.from, a.to)
	return text.Shorten(a.name, max(6, labelLetters-len([]rune(ends)))) + ends
}

// at is the position of a value, from 0 to 1.
func (a axis) at(v float64) float64 {
	if a.high == a.low {
		return 0.5
	}
	// Halves, so that ends of opposite signs and any size have a finite difference.
	return math.Max(0, math.Min(1, (v/2-a.low/2)/(a.high/2-a.low/2)))
}

func newScatterPanel(p Panel, x, y axis) scatterPanel {
	s := scatterPanel{
		Name: p.Name, Real: p.Real, Width: scatterSide, Height: scatterSide + 2*scatterText, Top: scatterText,
		Inner: scatterSide - 1,
		X:     x.label("→"), Y: y.label("↑"),
	}
	const room = scatterSide - 2*scatterMargin
	paths := map[int]*strings.Builder{}
	sizes := dotSizes(p.Weights, len(p.X))
	for i := range p.X {
		if sizes[i] == 0 {
			continue
		}
		path := paths[sizes[i]]
		if path == nil {
			path = &strings.Builder{}
			paths[sizes[i]] = path
		}
		fmt.Fprintf(path, "M%.1f %.1fh0", scatterMargin+room*x.at(p.X[i]),
			scatterText+scatterMargin+room*(1-y.at(p.Y[i])))
	}
	for _, size := range slices.Sorted(maps.Keys(paths)) {
		s.Dots = append(s.Dots, dots{Size: fmt.Sprintf("%.1f", dotSize*float64(size)/dotSteps),
			D: paths[size].String()})
	}
	kind := "synthetic"
	if p.Real {
		kind = "real"
	}
	s.Summary = fmt.Sprintf("%s: %s %s, by %s and %s", p.Name, text.Grouped(len(p.X)), kind+" rows", p.Columns[0],
		p.Columns[1])
	s.Says = fmt.Sprintf("Each dot is a row. %s, from left to right: %s to %s. %s, upwards: %s to %s.", p.Columns[0],
		x.from, x.to, p.Columns[1], y.from, y.to)
	if p.Weights != nil {
		s.Says += " The area of a dot follows the row's weight."
	}
	return s
}

// dotSizes are diameters in steps of dotSize/dotSteps whose squares follow the weights; 0
// for points of weight 0, which are not drawn.
func dotSizes(weights []float64, n int) []int {
	sizes := slices.Repeat([]int{dotSteps}, n)
	if weights == nil {
		return sizes
	}
	mean := 0.0
	for _, w := range weights {
		mean += w / float64(n)
	}
	for i, w := range weights {
		if w == 0 {
			sizes[i] = 0
			continue
		}
		diameter := math.Min(largestDot, math.Sqrt(w/mean))
		sizes[i] = max(1, int(math.Round(diameter*dotSteps)))
	}
	return sizes
}
