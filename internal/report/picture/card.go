package picture

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// Card is the picture of one column.
type Card struct {
	Column
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
	NoBar      bool    // a figure alone
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

// NewCard draws a column.
func NewCard(column Column) Card {
	c := Card{Column: column, Width: cardWidth}
	if column.Real {
		c.Badge = text.Percent(column.Score)
	}
	c.Low, c.High = column.ends()
	highest := smallestShare
	for _, b := range column.Bars {
		if b.Rest {
			continue // it would dwarf the others
		}
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

// full is a bar in words.
func (c *Card) full(b Bar) string {
	words := b.Label + ": " + text.Percent(b.Synthetic)
	if c.Real {
		words += " synthetic, " + text.Percent(b.Real) + " real"
	}
	return words
}

// drawHistogram draws bars on an axis, and the real histogram over them as a line.
func (c *Card) drawHistogram(highest float64) {
	const top = 6
	c.Bottom = top + plotHeight
	c.Height = c.Bottom + 18
	step := float64(cardWidth) / float64(max(1, len(c.Bars)))
	y := func(share float64) float64 { return c.Bottom - share/highest*plotHeight }
	var outline strings.Builder
	fmt.Fprintf(&outline, "M0 %.1f", c.Bottom)
	for k, b := range c.Bars {
		x := float64(k) * step
		c.Rects = append(c.Rects, rect{X: x + 0.5, Y: y(b.Synthetic), W: math.Max(1, step-1),
			H: c.Bottom - y(b.Synthetic), Full: c.full(b)})
		fmt.Fprintf(&outline, "V%.1fH%.1f", y(b.Real), x+step)
	}
	if c.Real {
		c.Outline = outline.String() + fmt.Sprintf("V%.1f", c.Bottom)
	}
}

// drawRows lays one bar per category, with its name at the left and the share
// at the right; the real share is a mark on the bar. Categories that were added up
// have no bar.
func (c *Card) drawRows(highest float64) {
	c.Height = float64(len(c.Bars)*rowHeight + 2)
	room := float64(cardWidth - labelWidth - valueWidth)
	for k, b := range c.Bars {
		top := float64(k * rowHeight)
		c.Rects = append(c.Rects, rect{
			X: labelWidth, Y: top + 4, W: b.Synthetic / highest * room, H: rowHeight - 8,
			Label: text.Shorten(b.Label, longestLabel), LabelY: top + rowHeight/2 + 4,
			Full: c.full(b), Value: text.Percent(b.Synthetic), NoBar: b.Rest, RealX: labelWidth + b.Real/highest*room,
		})
	}
}
