package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// Pictures are drawn on a fixed grid of units, and scale with the page.

// budgetChart is the spent epsilon over the rounds, as steps.
type budgetChart struct {
	chart
	Line, Area   string // path and polygon
	LimitY       float64
	Limit, Last  string
	LastX, LastY float64
	LastBelow    bool // the label of the last point goes below it
	// Sentence replaces a chart of one point.
	Sentence string
}

type chart struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64 // the plot's edges
	Ticks                    []tick  // of the vertical axis
	FirstRound, LastRound    string
	Summary                  string // for those who do not see it
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
	c := &budgetChart{chart: chart{Width: 560, Height: 240, Left: 52, Right: 548, Top: 22, Bottom: 206}}
	last := rounds[len(rounds)-1]
	highest := epsilon
	for _, r := range rounds {
		highest = math.Max(highest, r.EpsilonSpent)
	}
	if len(rounds) == 1 {
		c.Sentence = fmt.Sprintf("There was one answer, and it spent epsilon %.4g of the budget of "+
			"%s.", last.EpsilonSpent,
			text.Figure(epsilon))
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
	c.Limit = "budget ε = " + text.Figure(epsilon)
	c.LastX, c.LastY = x, y(last.EpsilonSpent)
	c.Last = fmt.Sprintf("%.4g spent", last.EpsilonSpent)
	c.LastBelow = c.LastY-c.LimitY < 18
	for k := range 5 { // quarters of the budget
		e := highest * float64(k) / 4
		c.Ticks = append(c.Ticks, tick{Y: y(e), Text: text.Figure(e)})
	}
	c.FirstRound, c.LastRound = fmt.Sprintf("round %d", rounds[0].Round), fmt.Sprintf("round %d", last.Round)
	c.Summary = fmt.Sprintf("Spent epsilon over %s, rising to %.4g of %s.",
		text.Several(len(rounds), "round"), last.EpsilonSpent,
		text.Figure(epsilon))
	return c
}
