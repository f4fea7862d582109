package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/student"
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
	c := &cobra.Command{Use: "masked [flags]", Short: "masked sums beside plain ones, on one aggregator"}
	sites := c.Flags().IntSlice("sites", []int{2, 10, 100}, "numbers of sites")
	entries := c.Flags().IntSlice("entries", []int{1000, 20_000, 1_000_000}, "lengths of sums")
	rounds := c.Flags().Int("rounds", 8, "rounds of each, in turn")
	readme := c.Flags().String("readme", "", "`file` whose table, between its marks masked: begin and end, is replaced")
	c.RunE = func(c *cobra.Command, _ []string) error {
		text, err := measureMasked(c.Context(), *sites, *entries, *rounds)
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

func measureMasked(ctx context.Context, sites, entries []int, rounds int) (string, error) {
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
		lines, err := w.masked(ctx, n, entries, rounds)
		if err != nil {
			return "", fmt.Errorf("%d sites: %w", n, err)
		}
		table.WriteString(lines)
	}
	return table.String(), nil
}

// masked measures so many sites.
func (w *workshop) masked(ctx context.Context, n int, entries []int, rounds int) (lines string, err error) {
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
	members, err := w.members(n)
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

// members are the sites as a masked run's spec has them.
func (w *workshop) members(n int) (*conclavev1.Masked, error) {
	g := masking.Group{Quorum: n, Colluding: 1}
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

// sums measures rounds of one length, plain and masked in turn.
func (r *rig) sums(ctx context.Context, entries, rounds int) (string, error) {
	var took, node, server, up [2][]float64
	for i := range rounds + 1 {
		for k, a := range r.aggregator.students {
			serverBefore, nodesBefore, err := r.read(ctx, r.aggregator)
			if err != nil {
				return "", err
			}
			began := time.Now()
			q := sumRound(a.run, a.next, entries)
			if _, err := a.client.Ask(ctx, q, student.Asking{Forget: q.Number}, nil); err != nil {
				return "", err
			}
			a.next++
			clock := time.Since(began).Seconds()
			serverAfter, nodesAfter, err := r.read(ctx, r.aggregator)
			if err != nil {
				return "", err
			}
			if i == 0 {
				continue // which exchanges keys, and warms up
			}
			each := 1 / float64(r.size.nodes)
			wire := socketBytes(aggregatorSide, "up")
			took[k] = append(took[k], clock)
			node[k] = append(node[k], (nodesAfter[cpuMetric]-nodesBefore[cpuMetric])*each)
			server[k] = append(server[k], serverAfter[cpuMetric]-serverBefore[cpuMetric])
			up[k] = append(up[k], (nodesAfter[wire]-nodesBefore[wire])*each)
		}
	}
	noise, err := noiseTime(entries)
	if err != nil {
		return "", err
	}
	const ms = 1000
	return fmt.Sprintf("| %d | %d | %.1f | %.1f | %.2f | %.2f | %.2f | %.2f | %.1f | %.1f | %.0f | %.0f |\n",
		r.size.nodes, entries, ms*mean(took[0]), ms*mean(took[1]), ms*mean(node[0]), ms*mean(node[1]), ms*noise,
		mean(node[1])/(mean(node[0])+noise), ms*mean(server[0]), ms*mean(server[1]), mean(up[0]),
		mean(up[1])), nil
}

func sumRound(run string, number uint64, entries int) *conclavev1.Round {
	r := question.Ask(sumKind, &conclavev1.EmbeddingSum{Entries: uint32(entries)},
		question.Shape{Sum: &question.Vector{Entries: entries, Bound: sumBound, Rate: 1}})
	r.Run, r.Number = run, number
	return r
}

// noiseTime is the processor time of one vector of exact noise.
func noiseTime(entries int) (float64, error) {
	sum, err := gnmax.NewGaussianSum(sumBound, sumNoise)
	if err != nil {
		return 0, err
	}
	share, err := sum.Share(1)
	if err != nil {
		return 0, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the clock is the processor's time
	dst := make([]int64, entries)
	var times []float64
	for range 5 {
		began := time.Now()
		if err := share.Draw(gnmax.NewSource(), dst); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began).Seconds())
	}
	return mean(times), nil
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}
