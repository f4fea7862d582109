package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/test/clustertest"
)

// outcome is the result of TestFaults: how often each kind of fault happened, and what came of all.
func (c *cluster) outcome(faults map[string]int, found clustertest.Found, nodes int) clustertest.Outcome {
	figures := map[string]float64{"nodes": float64(nodes), "releases charged": float64(len(found.Releases)),
		"times that the ledgers were read":           float64(found.Reads),
		"longest time without a release, in seconds": found.Longest.Round(time.Second / 10).Seconds()}
	all := 0
	for name, n := range faults {
		all += n
		figures["fault: "+name] = float64(n)
	}
	for what, n := range c.told.counted() {
		figures[what] = float64(n)
	}
	for _, entries := range found.Ledgers {
		figures["ledger entries"] += float64(len(entries))
	}
	figures["faults"] = float64(all)
	return clustertest.Outcome{Group: "faults", Case: fmt.Sprintf("%d faults, %d nodes", all, nodes), Figures: figures,
		Failed: strings.Join(c.told.blamed(), "; ")}
}

// listed lists figures by name, one a line.
func listed[N int | float64](figures map[string]N) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		lines = append(lines, fmt.Sprintf("%8v  %s", figures[name], name))
	}
	return strings.Join(lines, "\n")
}
