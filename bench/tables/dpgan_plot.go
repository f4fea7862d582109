package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/evaluate"
)

// The picture's size and the edges of its axes, in pixels.
const (
	width, height            = 480, 320
	left, right, top, bottom = 56, 460, 24, 272
)

// plotEvery draws the accuracy of each series by n_D, on a logarithmic axis.
func plotEvery(results []*figures.Line) ([]byte, error) {
	var b bytes.Buffer
	x := func(n int) float64 { return left + (right-left)*math.Log(float64(n))/math.Log(lastEvery) }
	y := func(share float64) float64 { return bottom + (top-bottom)*share }
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" ", width, height)
	b.WriteString("font-family=\"sans-serif\" font-size=\"12\">\n")
	for i := range 6 {
		a := float64(i) / 5
		fmt.Fprintf(&b,
			"<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
			left, y(a), right, left-6, y(a)+4, a)
	}
	for _, n := range everySeries[0].everies {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x(n), bottom+18, n)
	}
	drawn := 0
	for _, s := range everySeries {
		var line bytes.Buffer
		for _, n := range s.everies {
			for _, r := range results {
				share, ok := r.Figures[accuracy]
				if r.Group != s.name(n) || r.Case == figures.RealRows || !ok {
					continue
				}
				fmt.Fprintf(&line, "%.1f,%.1f ", x(n), y(share))
				fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%.3f</title></circle>\n",
					x(n), y(share), s.colour, share)
			}
		}
		if line.Len() == 0 {
			continue
		}
		fmt.Fprintf(&b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
			bytes.TrimSpace(line.Bytes()), s.colour)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">%s</text>\n", right,
			bottom-110+16*drawn, s.colour, s.says)
		drawn++
	}
	if drawn == 0 {
		return nil, errors.New("there is nothing to plot: measure lines whose names begin with nd- or even-")
	}
	fmt.Fprintf(&b,
		"<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">steps of the discriminator for one of the generator "+
			"(n_D)</text>\n", (left+right)/2, bottom+38)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" font-size=\"10\">accuracy, MNIST, epsilon 10; %s</text>\n</svg>\n", left,
		top-8, evaluate.NotPrivate)
	return b.Bytes(), nil
}
