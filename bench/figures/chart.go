package figures

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// bar is a line of a chart: our figure with its spread, the same without records, and one by others. Unknown figures
// are left out.
type bar struct {
	label             string
	ours, null, paper value
}

// The picture's columns and rows, in pixels.
const (
	wide, labels, edge = 640, 220, 16
	head, line, foot   = 48, 22, 28
)

const legend = `<circle cx="14" cy="34" r="4" fill="#1f77b4"/><text x="22" y="38">Conclave</text>
<path d="M96 30l4 4l-4 4l-4 -4z" fill="#d95f02"/><text x="104" y="38">by others</text>
<circle cx="178" cy="34" r="4" fill="#fff" stroke="#777"/><text x="186" y="38">without records</text>
`

// chart draws bars on an axis from low to high, as SVG. Marks beyond the axis are drawn at its end. Bars without
// any figure are left out.
func chart(title string, low, high float64, bars []bar) string {
	bars = slices.DeleteFunc(slices.Clone(bars), func(b bar) bool {
		return b.ours.seeds+b.null.seeds+b.paper.seeds == 0
	})
	var b strings.Builder
	tall := head + line*len(bars) + foot
	bottom := tall - foot + 2
	x := func(v float64) float64 {
		return labels + (wide-edge-labels)*(min(high, max(low, v))-low)/(high-low)
	}
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "+
		"font-family=\"sans-serif\" font-size=\"12\">\n", wide, tall)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", wide, tall)
	fmt.Fprintf(&b, "<text x=\"8\" y=\"18\" font-weight=\"bold\">%s</text>\n", html.EscapeString(title))
	b.WriteString(legend)
	for i := range 5 {
		v := low + (high-low)*float64(i)/4
		fmt.Fprintf(&b, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/>\n", x(v), head-4, bottom)
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n", x(v), tall-8, v)
	}
	for i, bar := range bars {
		y := head + line*i + line/2
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", labels-10, y+4,
			html.EscapeString(bar.label))
		if v := bar.null; v.seeds > 0 {
			fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%d\" r=\"4\" fill=\"#fff\" stroke=\"#777\"/>\n", x(v.mean), y)
		}
		if v := bar.paper; v.seeds > 0 {
			fmt.Fprintf(&b, "<path d=\"M%.1f %dl4 4l-4 4l-4 -4z\" fill=\"#d95f02\"/>\n", x(v.mean), y-4)
		}
		if v := bar.ours; v.seeds > 0 {
			from, to := x(v.mean-v.spread), x(v.mean+v.spread)
			fmt.Fprintf(&b, "<path d=\"M%.1f %dH%.1f\" stroke=\"#1f77b4\"/>\n", from, y, to)
			fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%d\" r=\"4\" fill=\"#1f77b4\"><title>%s</title></circle>\n",
				x(v.mean), y, v)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
