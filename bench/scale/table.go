package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// The marks of the part of a file that [fill] replaces.
// marks are the lines between which a table of a name stands.
func marks(name string) (begin, end string) {
	return "<!-- " + name + ": begin -->", "<!-- " + name + ": end -->"
}

// markdown is the tables and the fits.
func markdown(p plan, results []*result) string {
	var b strings.Builder
	audit := "off"
	if p.audit {
		audit = "on"
	}
	fmt.Fprintf(&b,
		"Audit log %s; %d blocks of %v of each side, in turn; medians, and the range over blocks of the ratio.\n\n",
		audit, p.blocks, p.block)
	b.WriteString(
		"| connections x teachers | rounds/s | bare rounds/s | ratio | ms a round | CPU ms a round | bare CPU ms | " +
			"etcd ms (requests) | bytes down a connection | up | MiB/s |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		figure := func(blocks []block, f func(block) float64) float64 { return median(of(blocks, f)) }
		cpu := func(b block) float64 { return 1000 * b.cpu }
		n := float64(r.size.nodes)
		fmt.Fprintf(&b,
			"| %s | %.1f | %.1f | %.2f (%.2f to %.2f) | %.1f | %.1f | %.1f | %.1f (%.1f) | %.0f | %.0f | %.1f |\n",
			r.size.words(), 1/median(seconds(r.blocks)), 1/median(seconds(r.bare)),
			median(r.ratios()), slices.Min(r.ratios()), slices.Max(r.ratios()),
			1000*median(seconds(r.blocks)), figure(r.blocks, cpu), figure(r.bare, cpu),
			1000*figure(r.blocks, func(b block) float64 { return b.etcd }),
			figure(r.blocks, func(b block) float64 { return b.etcdRequests }),
			figure(r.blocks, func(b block) float64 { return b.down })/n,
			figure(r.blocks, func(b block) float64 { return b.up })/n,
			figure(r.blocks, func(b block) float64 { return (b.down + b.up) / b.seconds })/(1<<20))
	}
	b.WriteString(
		"\n| connections x teachers | aggregator alone, MiB | idle, MiB | KiB an idle connection: resident | heap | " +
			"stacks | after the rounds, MiB | open files | joining, s | CPU ms to join |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		each := func(f func(memory) float64) float64 { return (f(r.idle) - f(r.alone)) / float64(r.size.nodes) / 1024 }
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.1f | %.1f | %.1f | %.0f | %.0f | %.1f | %.2f |\n",
			r.size.words(), r.alone.rss/(1<<20), r.idle.rss/(1<<20),
			each(func(m memory) float64 { return m.rss }), each(func(m memory) float64 { return m.heap }),
			each(func(m memory) float64 { return m.stack }),
			r.after.rss/(1<<20), r.fds, r.joining.Seconds(), 1000*(r.idle.cpu-r.alone.cpu)/float64(r.size.nodes))
	}
	b.WriteString(fits(results))
	return b.String()
}

// fits are the exponents and the lines over the sizes with the teachers of the first one.
func fits(results []*result) string {
	var n []float64
	figures := []struct {
		name       string
		aggregator bool
		of         func(block) float64
		y          []float64
	}{
		{name: "time of a round", aggregator: true, of: func(b block) float64 { return b.seconds }},
		{name: "CPU time of a round", aggregator: true, of: func(b block) float64 { return b.cpu }},
		{name: "time of a round, bare", of: func(b block) float64 { return b.seconds }},
		{name: "CPU time of a round, bare", of: func(b block) float64 { return b.cpu }},
	}
	for _, r := range results {
		if first := results[0].size; r.size.teachers != first.teachers || r.size.students != first.students {
			continue
		}
		n = append(n, float64(r.size.nodes))
		for i := range figures {
			blocks := r.bare
			if figures[i].aggregator {
				blocks = r.blocks
			}
			figures[i].y = append(figures[i].y, median(of(blocks, figures[i].of)))
		}
	}
	if len(n) < 2 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nOver %.0f to %.0f connections, least squares with standard errors:\n\n", n[0], n[len(n)-1])
	b.WriteString("| figure | exponent | ms without connections | µs a connection |\n|---|---|---|---|\n")
	for _, f := range figures {
		power, straight := exponent(n, f.y), leastSquares(n, f.y)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.name, withError(power.slope, power.slopeError, 2),
			withError(1e3*straight.at0, 1e3*straight.at0Error, 1),
			withError(1e6*straight.slope, 1e6*straight.slopeError, 1))
	}
	return b.String()
}

func withError(value, err float64, digits int) string {
	if math.IsNaN(err) {
		return fmt.Sprintf("%.*f", digits, value)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, value, digits, err)
}

// fill replaces what stands between the marks in a file.
func fill(path, text string) error { return fillBetween(path, "measured", text) }

// fillBetween replaces what stands between the marks of a name.
func fillBetween(path, name, text string) error {
	beginMark, endMark := marks(name)
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %s and %s for the table to stand between", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n"+text+endMark+after), 0o644)
}
