package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// agreement is the chart of the teachers' released answers by round, and of how many questions were answered.
type agreement struct {
	chart
	Outer, Inner, Median string // polygons of 80% and 50% of the answers, and a line
	NoiseLow, NoiseHigh  string // where 80% would lie with noise only
	Title                string
	Votes                bool   // whether teachers voted at all
	Drawn                bool   // false when no shares are known
	One                  bool   // one round is a sentence instead of a chart
	Noise                string // of one answer, in words
	Counts               string // sentence about questions and answers
	Missing              string // sentence about rounds that are not drawn
}

// within80 is how many standard deviations on each side contain 80% of a normal distribution.
const within80 = 1.2815515655446004

// newAgreement returns nil without rounds or without teachers.
func newAgreement(rounds []Round, teachers bool) *agreement {
	if len(rounds) == 0 {
		return nil
	}
	a := &agreement{chart: chart{Width: 560, Height: 240, Left: 52, Right: 548, Top: 12, Bottom: 206}}
	var asked, answered int64
	var drawn []Round
	later, rounds := stages(rounds)
	begun, rounds := embeddings(rounds)
	if len(rounds) == 0 {
		a.Title, a.Counts = "What was asked", joined(begun, later)
		return a
	}
	if a.Title = "What was asked"; teachers {
		a.Title, a.Votes = "How far the teachers agreed", true
	}
	for _, r := range rounds {
		asked, answered = asked+r.Queries, answered+r.Answered
		if r.Shares != nil {
			drawn = append(drawn, r)
		}
	}
	a.Counts = fmt.Sprintf("In %s, %s of %s were answered.", text.Several(len(rounds), "round"), text.Grouped(answered),
		text.Several(asked, "question"))
	switch {
	case answered == asked && asked == 1:
		a.Counts = fmt.Sprintf("In %s, the one question was answered.", text.Several(len(rounds), "round"))
	case answered == asked:
		a.Counts = fmt.Sprintf("In %s, all %s were answered.", text.Several(len(rounds), "round"),
			text.Several(asked, "question"))
	}
	a.Counts = joined(begun, a.Counts, later)
	if len(drawn) > 0 {
		a.draw(drawn)
		a.One = len(drawn) == 1
		if first := drawn[0].Round; first > 1 {
			a.Missing = fmt.Sprintf("Only answers from round %d on were stored.", first)
		}
	}
	return a
}

// embeddings describes what was asked before everything else, and returns the later rounds.
func embeddings(rounds []Round) (says string, others []Round) {
	var numbers int64
	var spent float64
	for _, r := range rounds {
		if r.Kind == "embedding" {
			numbers, spent = numbers+r.Entries, r.EpsilonSpent
		} else {
			others = append(others, r)
		}
	}
	switch {
	case len(others) == len(rounds):
		return "", others
	case len(others) == 0:
		return fmt.Sprintf(
			"There was one question, for the sum of the features of all records: %s, released with noise.",
			text.Several(numbers, "number")), nil
	}
	return fmt.Sprintf("The generator started from a noisy sum of the features of all records: %s for epsilon %s.",
		text.Several(numbers, "number"), text.Figure(spent)), others
}

func (a *agreement) draw(rounds []Round) {
	low, high, noise := 0.0, 1.0, 0.0
	for _, r := range rounds {
		edge := within80 * r.Shares.Noise
		low = math.Min(low, math.Min(r.Shares.P10, 0.5-edge))
		high = math.Max(high, math.Max(r.Shares.P90, 0.5+edge))
		noise += r.Shares.Noise / float64(len(rounds))
	}
	step := (a.Right - a.Left) / float64(len(rounds))
	y := func(share float64) float64 { return a.Bottom - (share-low)/(high-low)*(a.Bottom-a.Top) }
	steps := func(of func(*Shares) float64) (line string) {
		var b strings.Builder
		for k, r := range rounds {
			move := "L"
			if k == 0 {
				move = "M"
			}
			fmt.Fprintf(&b, "%s%.1f %.1fH%.1f", move, a.Left+float64(k)*step, y(of(r.Shares)), a.Left+float64(k+1)*step)
		}
		return b.String()
	}
	// A band is its upper edge and back along its lower one.
	band := func(upper, lower func(*Shares) float64) string {
		var back strings.Builder
		for k := len(rounds) - 1; k >= 0; k-- {
			fmt.Fprintf(&back, "L%.1f %.1fH%.1f", a.Left+float64(k+1)*step, y(lower(rounds[k].Shares)),
				a.Left+float64(k)*step)
		}
		return steps(upper) + back.String() + "Z"
	}
	a.Outer = band(func(s *Shares) float64 { return s.P90 }, func(s *Shares) float64 { return s.P10 })
	a.Inner = band(func(s *Shares) float64 { return s.P75 }, func(s *Shares) float64 { return s.P25 })
	a.Median = steps(func(s *Shares) float64 { return s.P50 })
	a.NoiseLow = steps(func(s *Shares) float64 { return 0.5 - within80*s.Noise })
	a.NoiseHigh = steps(func(s *Shares) float64 { return 0.5 + within80*s.Noise })
	for k := range 5 {
		share := float64(k) / 4
		a.Ticks = append(a.Ticks, tick{Y: y(share), Text: text.Percent(share)})
	}
	last := rounds[len(rounds)-1]
	a.FirstRound, a.LastRound = fmt.Sprintf("round %d", rounds[0].Round), fmt.Sprintf("round %d", last.Round)
	a.Noise = text.Percent(noise)
	a.Drawn = true
	a.Summary = fmt.Sprintf(
		"Released shares of teachers that called a row real, over %s; in the last round, the middle half of the rows "+
			"was between %s and %s.",
		text.Several(len(rounds), "round"), text.Percent(last.Shares.P25), text.Percent(last.Shares.P75))
}
