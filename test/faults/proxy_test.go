package faults

import (
	"strings"
	"time"

	"github.com/conclave-dp/conclave/test/clustertest"
)

// paceStudents delays every piece between students and aggregators, so that runs take longer.
func (c *cluster) paceStudents(pace time.Duration) {
	for _, p := range c.proxiesWhere(func(from, _ string) bool { return from == "students" }) {
		p.Set(func(p *clustertest.Proxy) { p.Pace = pace })
	}
}

// proxiesWhere returns the proxies between two roles for which holds is true.
func (c *cluster) proxiesWhere(holds func(from, to string) bool) (of []*clustertest.Proxy) {
	for _, p := range c.proxies {
		if from, to, _ := strings.Cut(p.Name, " to "); holds(from, to) {
			of = append(of, p)
		}
	}
	return of
}

// lose cuts the connections of nodes and students to an aggregator and refuses new ones until the returned function
// is called. They then look for another one at once, without waiting for a timeout.
func (c *cluster) lose(aggregator *process) (found func()) {
	of := c.proxiesWhere(func(_, to string) bool { return to == aggregator.name })
	for _, p := range of {
		p.Sever()
	}
	return func() {
		for _, p := range of {
			p.Heal()
		}
	}
}
