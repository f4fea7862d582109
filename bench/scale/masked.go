package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	sumKind  = "sums"
	sumBound = 1 << 16
	// sumNoise is so large that a budget lasts for as many rounds as are asked.
	sumNoise = 2000
)

// maskedCommand measures rounds of sums under masks beside the same rounds without.
func maskedCommand() *cobra.Command {
	c := &cobra.Command{Use: "masked [flags]", Short: "compare masked sums with plain sums on one aggregator"}
	sites := c.Flags().IntSlice("sites", []int{2, 10, 100}, "comma-separated numbers of sites")
	entries := c.Flags().IntSlice("entries", []int{1000, 20_000, 1_000_000}, "comma-separated lengths of the sums")
	rounds := c.Flags().Int("rounds", 8, "number of rounds of each, in turn")
	quorum := c.Flags().Float64("quorum", 0.9, "the share of sites that a masked sum needs")
	readme := c.Flags().String("readme", "", "replace the table between the marks masked: begin and end in `file`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		text, err := measureMasked(c.Context(), *sites, *entries, *rounds, *quorum)
		if err != nil {
			return err
		}
		fmt.Print(text)
		if *readme != "" {
			return fillBetween(*readme, "masked", text)
		}
		return nil
	}
	return c
}

func measureMasked(ctx context.Context, sites, entries []int, rounds int, quorum float64) (string, error) {
	dir, err := os.MkdirTemp("", "scale")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	w, err := newWorkshop(ctx, dir, slices.Max(sites))
	if err != nil {
		return "", err
	}
	var table strings.Builder
	table.WriteString("Times are those of a round: the clock, processor time of one node and of the aggregator. " +
		"\"noise\" is one vector\nof exact noise at one node, \"ratio\" the masked node's time over the plain one's " +
		"with that noise. Means of " + fmt.Sprint(rounds) + " rounds\nof each, in turn.\n\n" +
		"| sites | numbers | plain ms | masked ms | node ms | masked node ms | noise ms | ratio | aggregator ms | " +
		"masked | bytes up of a node | masked |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, n := range sites {
		lines, err := w.masked(ctx, n, entries, rounds, quorum)
		if err != nil {
			return "", fmt.Errorf("%d sites: %w", n, err)
		}
		table.WriteString(lines)
	}
	return table.String(), nil
}

// masked measures so many sites.
func (w *workshop) masked(ctx context.Context, n int, entries []int, rounds int, quorum float64) (
	lines string, err error,
) {
	r := &rig{size: size{nodes: n, teachers: 1, students: 2}}
	if r.dir, err = os.MkdirTemp(w.dir, "m"); err != nil {
		return "", err
	}
	defer r.kill()
	if r.aggregator, err = w.startAggregator(ctx, r.dir, false); err != nil {
		return "", err
	}
	if err := r.aggregator.connect(w.certs, 2); err != nil {
		return "", err
	}
	r.nodes, err = start(nodesRole, r.dir+"/nodes.log", w.self, nodesRole, "--certs", w.certs, "--nodes", fmt.Sprint(n),
		"--teachers", "1", "--sums")
	if err != nil {
		return "", err
	}
	if r.nodesMonitor, err = r.nodes.line(ctx); err != nil {
		return "", err
	}
	members, err := w.members(n, quorum)
	if err != nil {
		return "", err
	}
	for i, name := range []string{"plain", "masked"} {
		s := sumSpec(name, n)
		if name == "masked" {
			s.Masked = members
		}
		r.aggregator.students[i].run = name
		if _, err := r.aggregator.students[i].client.OpenRun(ctx, s); err != nil {
			return "", err
		}
	}
	if err := r.join(ctx, r.aggregator); err != nil {
		return "", err
	}
	for _, length := range entries {
		line, err := r.sums(ctx, length, rounds)
		if err != nil {
			return "", err
		}
		fmt.Fprint(os.Stderr, line)
		lines += line
	}
	return lines, nil
}

// members are the sites as a masked run's spec has them, with the quorum that such a share gives.
func (w *workshop) members(n int, share float64) (*conclavev1.Masked, error) {
	g := masking.Group{Colluding: 1}
	g.Quorum = min(n, max(masking.LeastQuorum(n, g.Colluding), int(math.Ceil(share*float64(n)-1e-9))))
	for i := range n {
		key, err := pemfile.LoadKey(certs.IssuedFiles(w.certs, certs.RoleNode, siteName(i)).Key)
		if err != nil {
			return nil, err
		}
		m, err := masking.MemberOf(siteName(i), key.Public())
		if err != nil {
			return nil, err
		}
		g.Members = append(g.Members, m)
	}
	slices.SortFunc(g.Members, func(a, b masking.Member) int { return strings.Compare(a.Site, b.Site) })
	return g.Wire(), g.Validate()
}

func sumSpec(run string, sites int) *conclavev1.RunSpec {
	s := spec(run, sites)
	s.Pipeline, s.Epsilon = "embed", 40
	s.Plan = []*conclavev1.Planned{{Kind: sumKind, Mechanism: &conclavev1.PrivacyEvent{
		Kind: "gaussian", Sigma: sumNoise, Sensitivity: 1,
	}}}
	return s
}
