package report

import (
	"fmt"
	"math"
	"strings"
)

// Pictures are drawn on a fixed grid of units, and scale with the page.

// budgetChart is the spent epsilon over the rounds, as steps.
type budgetChart struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64 // the plot's edges
	Line, Area               string  // path and polygon
	LimitY                   float64
	Limit, Last              string
	LastX, LastY             float64
	LastBelow                bool // the label of the last point goes below it
	Ticks                    []tick
	FirstRound, LastRound    string
	Summary                  string
}

type tick struct {
	Y    float64
	Text string
}

// newBudgetChart gives nil when there are no rounds.
func newBudgetChart(rounds []Round, epsilon float64) *budgetChart {
	if len(rounds) == 0 {
		return nil
	}
	c := &budgetChart{Width: 720, Height: 240, Left: 52, Right: 704, Top: 22, Bottom: 206}
	last := rounds[len(rounds)-1]
	highest := epsilon
	for _, r := range rounds {
		highest = math.Max(highest, r.EpsilonSpent)
	}
	step := (c.Right - c.Left) / float64(len(rounds))
	y := func(e float64) float64 { return c.Bottom - e/highest*(c.Bottom-c.Top) }
	var line strings.Builder
	x := c.Left
	fmt.Fprintf(&line, "M%.1f %.1f", x, c.Bottom)
	for _, r := range rounds {
		fmt.Fprintf(&line, "V%.1f", y(r.EpsilonSpent))
		x += step
		fmt.Fprintf(&line, "H%.1f", x)
	}
	c.Line = line.String()
	c.Area = c.Line + fmt.Sprintf("V%.1fZ", c.Bottom)
	c.LimitY = y(epsilon)
	c.Limit = "budget ε = " + figure(epsilon)
	c.LastX, c.LastY = x, y(last.EpsilonSpent)
	c.Last = fmt.Sprintf("%.4g spent", last.EpsilonSpent)
	c.LastBelow = c.LastY-c.LimitY < 18
	for k := range 5 {
		e := highest * float64(k) / 4
		c.Ticks = append(c.Ticks, tick{Y: y(e), Text: figure(e)})
	}
	c.FirstRound, c.LastRound = fmt.Sprintf("round %d", rounds[0].Round), fmt.Sprintf("round %d", last.Round)
	c.Summary = fmt.Sprintf("Spent epsilon over %d rounds, rising to %.4g of %s.", len(rounds), last.EpsilonSpent, figure(epsilon))
	return c
}

// card is the picture of one column.
type card struct {
	ColumnSummary
	Width, Height float64
	Bottom        float64
	Rects         []rect
	Outline       string // of the real histogram
	Low, High     string
	Badge         string // similarity as a percentage
	Summary       string
}

type rect struct {
	X, Y, W, H float64
	Label      string
	Full       string // for the tooltip
	LabelY     float64
	Value      string
	RealX      float64 // marker of the real share, horizontal bars only
}

const (
	cardWidth     = 320
	plotHeight    = 110
	rowHeight     = 22
	labelWidth    = 118
	valueWidth    = 52
	longestLabel  = 18 // characters that fit labelWidth
	smallestShare = 1e-12
)

func newCard(column ColumnSummary) card {
	c := card{ColumnSummary: column, Width: cardWidth}
	if column.Real {
		c.Badge = percent(column.Score)
	}
	c.Low, c.High = column.ends()
	highest := smallestShare
	for _, b := range column.Bars {
		highest = math.Max(highest, math.Max(b.Synthetic, b.Real))
	}
	if column.Horizontal {
		c.drawRows(highest)
	} else {
		c.drawHistogram(highest)
	}
	c.Summary = fmt.Sprintf("Distribution of %s in the synthetic rows", column.Name)
	if column.Real {
		c.Summary += " and in the real test rows"
	}
	return c
}

// drawHistogram stands bars on an axis and lays the real one over them as a
// line.
func (c *card) drawHistogram(highest float64) {
	const top = 6
	c.Bottom = top + plotHeight
	c.Height = c.Bottom + 18
	step := float64(cardWidth) / float64(max(1, len(c.Bars)))
	y := func(share float64) float64 { return c.Bottom - share/highest*plotHeight }
	var outline strings.Builder
	fmt.Fprintf(&outline, "M0 %.1f", c.Bottom)
	for k, b := range c.Bars {
		x := float64(k) * step
		full := b.Label + ": " + percent(b.Synthetic)
		if c.Real {
			full += " synthetic, " + percent(b.Real) + " real"
		}
		c.Rects = append(c.Rects, rect{X: x + 0.5, Y: y(b.Synthetic), W: math.Max(1, step-1), H: c.Bottom - y(b.Synthetic), Full: full})
		fmt.Fprintf(&outline, "V%.1fH%.1f", y(b.Real), x+step)
	}
	if c.Real {
		c.Outline = outline.String() + fmt.Sprintf("V%.1f", c.Bottom)
	}
}

// drawRows lays one bar per category, with its name at the left and the share
// at the right; the real share is a mark on the bar.
func (c *card) drawRows(highest float64) {
	c.Height = float64(len(c.Bars)*rowHeight + 2)
	room := float64(cardWidth - labelWidth - valueWidth)
	for k, b := range c.Bars {
		top := float64(k * rowHeight)
		full := b.Label + ": " + percent(b.Synthetic)
		if c.Real {
			full += " synthetic, " + percent(b.Real) + " real"
		}
		c.Rects = append(c.Rects, rect{
			X: labelWidth, Y: top + 4, W: b.Synthetic / highest * room, H: rowHeight - 8,
			Label: shorten(b.Label, longestLabel), LabelY: top + rowHeight/2 + 4,
			Full: full, Value: percent(b.Synthetic), RealX: labelWidth + b.Real/highest*room,
		})
	}
}

// shorten cuts a text to at most n characters.
func shorten(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return strings.TrimSpace(string(runes[:n-1])) + "…"
}
