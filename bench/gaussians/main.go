// Command gaussians measures post-GAN boosting and rejection sampling on the toy example of Neunhoeffer, Wu and
// Dwork 2021: points of 25 equal Gaussians on a grid. A DPGAN with exact noise learns them in one process. Its
// last generator is then compared with the results of pipeline/drs and pipeline/pgb.
//
//	go run ./bench/gaussians                    # epsilon 1, and without privacy
//	go run ./bench/gaussians --plot points.png  # with a picture of the first seed
//
// The quality Q of points is the sum over the modes of the share of points in the ellipse
// of 99% of the mode, at most 1/25 of each: 0.99 for the mixture itself.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

func main() { cli.Main(command()) }

func command() *cobra.Command {
	c := &cobra.Command{Use: "gaussians [flags]", Short: "measure boosting and rejection sampling on the 25 Gaussians"}
	f := c.Flags()
	seeds := f.Int("seeds", 5, "number of runs of each kind")
	epsilon := f.Float64("epsilon", 1, "epsilon of the private runs")
	records := f.Int("records", authors, "number of training points; delta is 1/(2 records)")
	rate := f.Float64("rate", 0, "rate at which selections change the weights; 0: chosen")
	log := f.String("log", "", "append the quality of each method's points to `file` as JSON lines, for bench/figures")
	plot := f.String("plot", "",
		"write a PNG of the first seed's points to `file`: one column for each method, the private run on top")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *seeds < 1 {
			return cli.Misuse("--seeds: use at least 1")
		}
		if *records < 100 {
			return cli.Misuse("--records: use at least 100")
		}
		first, err := measure(c.Context(), os.Stdout, *epsilon, *records, *rate, *seeds, *log)
		if err != nil || *plot == "" {
			return err
		}
		return savePicture(*plot, first)
	}
	return c
}

// measure prints the table, adds lines to log if that is a file, and returns the first seed's results.
func measure(ctx context.Context, out io.Writer, epsilon float64, records int, rate float64, seeds int,
	log string) (first []*result, err error) {
	for _, s := range []setting{standard(epsilon, records), standard(0, records)} {
		s.game.Rate = rate
		results, err := s.runs(ctx, out, 1, seeds)
		if err != nil {
			return nil, err
		}
		if err := s.note(log, results); err != nil {
			return nil, err
		}
		first = append(first, results[0])
	}
	return first, nil
}

// note adds a line for each method and seed to a file, if that is named.
func (s setting) note(file string, results []*result) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := json.NewEncoder(f)
	for i, r := range results {
		for m, name := range methods {
			if err := lines.Encode(map[string]any{
				"privacy": "points that this command draws itself, of no person", "seed": 1 + i, "case": name,
				"group": fmt.Sprintf("epsilon-%g", s.epsilon), "figures": map[string]float64{"Q": r.quality[m]},
			}); err != nil {
				return err
			}
		}
	}
	return f.Close()
}

// runs returns the results of seeds from first on, and prints their table.
func (s setting) runs(ctx context.Context, out io.Writer, first, seeds int) ([]*result, error) {
	noise, err := s.noise()
	if err != nil {
		return nil, err
	}
	title := "without privacy (NOT PRIVATE)"
	if s.epsilon > 0 {
		costs, err := s.costs(noise)
		if err != nil {
			return nil, err
		}
		title = fmt.Sprintf("epsilon %.3f (GAN %.3f alone, %d selections %.3f alone), delta %g, noise multiplier %.3f",
			costs[2], costs[0], s.game.Rounds, costs[1], s.delta, noise)
	}
	fmt.Fprintf(out, "%s, %d records, %d seeds\n", title, s.records, seeds)
	var results []*result
	for seed := range seeds {
		r, err := s.run(ctx, uint64(first+seed), noise)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	fmt.Fprintf(out, "  %-22s %-16s %-16s %s\n", "", "Q", "over the last", "better in")
	for m, name := range methods {
		mean, deviation := moments(results, func(r *result) float64 { return r.quality[m] })
		fmt.Fprintf(out, "  %-22s %.3f +- %.3f", name, mean, deviation)
		if m > 0 {
			better := 0
			for _, r := range results {
				if r.gain(m) > 0 {
					better++
				}
			}
			mean, deviation = moments(results, func(r *result) float64 { return r.gain(m) })
			fmt.Fprintf(out, "   %+.3f +- %.3f  %d of %d", mean, deviation, better, seeds)
		}
		fmt.Fprintln(out)
	}
	return results, nil
}

// gain is the quality of a method minus that of the last generator.
func (r *result) gain(method int) float64 { return r.quality[method] - r.quality[0] }

// moments returns the mean and the standard deviation of a figure over runs.
func moments(results []*result, of func(*result) float64) (mean, deviation float64) {
	n := float64(len(results))
	for _, r := range results {
		mean += of(r) / n
	}
	for _, r := range results {
		deviation += (of(r) - mean) * (of(r) - mean) / math.Max(1, n-1)
	}
	return mean, math.Sqrt(deviation)
}
