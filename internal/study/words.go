package study

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Addresses are the aggregator's addresses, as role files name them.
func (s *Study) Addresses() string {
	all := make([]string, len(s.Aggregator.Hosts))
	for i, host := range s.Aggregator.Hosts {
		all[i] = net.JoinHostPort(host, strconv.Itoa(s.Aggregator.Port))
	}
	return strings.Join(all, ", ")
}

// Words describe a study, in lines, for people who decide whether to take part.
func (s *Study) Words() string {
	stages, sees := "no stages after training", "the aggregator sees the sums of each site, and adds the noise"
	if len(s.Stages) > 0 {
		stages = "after training: " + strings.Join(s.Stages, ", ")
	}
	if s.Masked {
		sees = "masked: the aggregator sees only noisy totals"
	}
	apart := "is at only one site"
	if s.Overlap > 1 {
		apart = fmt.Sprintf("may be at %d sites", s.Overlap)
	}
	var b strings.Builder
	for _, line := range [][2]string{
		{"study", s.Name + ": " + s.Title},
		{"purpose", s.Purpose},
		{"permit", s.Permit},
		{"contact", s.Contact},
		{"until", s.Expires},
		{"dataset", fmt.Sprintf("%s; protected unit: one %s, which %s", s.Dataset, s.Unit, apart)},
		{"sites", fmt.Sprintf("%s; teachers at each: %d", strings.Join(s.Sites, ", "), s.Teachers)},
		{"students", strings.Join(s.Students, ", ")},
		{"may be asked", "pipelines " + strings.Join(s.Pipelines, ", ") + "; " + stages},
		{"budget", fmt.Sprintf("epsilon %g at delta %g, for all runs together", s.Budget.Epsilon, s.Budget.Delta)},
		{"who sees", sees},
		{"aggregator", s.Addresses()},
	} {
		fmt.Fprintf(&b, "%-13s %s\n", line[0], line[1])
	}
	return b.String()
}
