package accounting

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
)

func planCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan --run run.yaml [--site-teachers N] [--format json]",
		Short: "show what a run will spend, and what leaves a node",
	}
	var node run.Node
	f := c.Flags()
	path := f.String("run", "", "the run.yaml `file` to plan; nothing is asked or spent")
	f.IntVar(&node.Teachers, "site-teachers", 0,
		"number of teachers of the node whose messages are shown; 0: all teachers of the run")
	f.StringVar(&node.Dataset, "dataset", "dataset", "name of the dataset in the node's messages")
	f.StringVar(&node.Site, "site", "site", "name of the site in the node's messages")
	f.StringVar(&node.Node, "node", "1", "name of the node in its messages")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *path == "" {
			return cli.Misuse("--run: give a run.yaml")
		}
		forecast, err := plan(*path, node)
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(forecast)
		}
		printForecast(forecast)
		return nil
	}
	return c
}

// plan forecasts what the run of a file will ask and cost. If node has no number of teachers, it has all of the
// run's.
func plan(path string, node run.Node) (*run.Forecast, error) {
	spec, err := runfile.Load(path)
	if err != nil {
		return nil, err
	}
	schema, err := spec.LoadSchema()
	if err != nil {
		return nil, err
	}
	if node.Teachers == 0 {
		node.Teachers = spec.Teachers
	}
	forecast, err := run.NewForecast(spec, schema, node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return forecast, nil
}

func printForecast(f *run.Forecast) {
	switch {
	case f.Rounds == 0:
		fmt.Printf("run %s: one noisy sum of public features, %s\n", f.Run, text.Several(f.Embedding, "number"))
		fmt.Println("releases:")
	case f.Planned && f.Unanimous == 0:
		fmt.Printf("run %s: %s of %s each, all planned before the first\n", f.Run,
			text.Several(f.Rounds, "noisy sum"), text.Several(f.Queries/max(1, f.Rounds), "number"))
		fmt.Println("releases:")
	default:
		if p, _ := pipelines.Named(f.Pipeline); p.Teachers || f.Unanimous > 0 {
			fmt.Printf("run %s: %s in %s to %s\n", f.Run, text.Several(f.Queries, "query"),
				text.Several(f.Rounds, "round"), text.Several(f.Teachers, "teacher"))
			fmt.Printf("with this noise the budget allows %s\n", text.Several(f.Admitted, "query"))
		} else {
			first, sum := "", "noisy sum"
			if f.First {
				first, sum = "a first noisy sum, then ", "more noisy sum"
			}
			fmt.Printf("run %s: %s%s of %s in all\n", f.Run, first, text.Several(f.Rounds, sum),
				text.Several(f.Queries, "number"))
		}
		if f.Admitted < int64(f.Queries) {
			fmt.Println("that is fewer than planned: the run will end early, and keep what it learned until then")
		}
		fmt.Println("releases, if every query is answered:")
	}
	for _, e := range f.Events {
		fmt.Printf("  %s\n", describe(e))
	}
	fmt.Printf("cost epsilon %.6g of %g at delta %g (%s), for one %s more or less\n",
		f.Claim.Epsilon, f.Epsilon, f.Delta, f.Claim.Accountant, f.Unit+meaning.At(f.Overlap))
	for _, share := range f.Shares {
		fmt.Printf("  including %s, which costs epsilon %.6g by itself\n", share.Option, share.Epsilon)
	}
	if f.Planned {
		for _, name := range privacy.Accountants() {
			if epsilon := f.Claim.ByAccountant[name]; epsilon != nil {
				fmt.Printf("  by %s %.6g\n", name, *epsilon)
			}
		}
		fmt.Println("a dataset with filter gdp or rdp must have room for its filter's figure")
	} else if f.Rounds > 0 {
		fmt.Printf("the filter counts %.6g: it allows all of these releases, and little more\n",
			f.FilterEpsilon)
	}
	fmt.Printf("%s protection (%s)\n%s\n", f.Strength, meaning.Source,
		f.Telling.Sentence("one "+f.Unit+meaning.At(f.Overlap)))
	for _, warning := range f.Warnings {
		fmt.Println("warning: " + warning)
	}
	if f.Unanimous > 0 {
		fmt.Printf("a unanimous vote survives the noise with probability 0.95 if there are at least %s\n",
			text.Several(f.Unanimous, "teacher"))
	}
	if m := f.Masked; m != nil {
		fmt.Printf("masked sums of %d sites; up to %d of them may collude with the aggregator; a sum needs %d "+
			"sites\n", m.Sites, m.Colluding, m.Quorum)
		fmt.Printf("noise factor %.3g: a sum of all sites has this many times the required noise\n",
			m.NoiseFactor)
		fmt.Printf("a site's own ledger is charged each time its answer to a round is opened, at most %s: "+
			"epsilon %.6g in total\n",
			text.Several(m.RevealsAtMost, "time"), m.SiteEpsilon)
	}
	fmt.Println("what leaves a node, at most (before TLS):")
	printMessages(f.Leaving)
	fmt.Println("what a node receives:")
	printMessages(f.Arriving)
}

func printMessages(messages []run.Message) {
	for _, m := range messages {
		if m.Times == 0 {
			fmt.Printf("  %s: %s\n", m.Name, m.Content)
			continue
		}
		fmt.Printf("  %s, %d x %d bytes: %s\n", m.Name, m.Times, m.Bytes, m.Content)
	}
}
