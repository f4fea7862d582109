package rows

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/runfile"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench COMMAND", Short: "reproduce a table of a paper on the same data"}
	c.AddCommand(papersCommand())
	return c
}

func papersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "papers --table NAME --data DIR [flags]",
		Short: "reproduce a table of a paper, and show both results",
	}
	var names []string
	for _, t := range figures.Tables() {
		names = append(names, t.Name)
	}
	var o figures.Options
	f := c.Flags()
	table := f.String("table", "", "the table to run: "+strings.Join(names, ", "))
	f.StringSliceVar(&o.Sets, "sets", nil, "only these data sets, separated by commas")
	f.StringVar(&o.Data, "data", "", "`folder` with a subfolder for each data set, which includes schema.yaml")
	f.IntVar(&o.Seeds, "seeds", 3, "runs of each kind, at least 3")
	format := cli.Format(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *table == "" || o.Data == "" {
			return cli.Misuse("--table and --data are required")
		}
		if o.Seeds < 3 {
			return cli.Misuse("--seeds %d: use at least 3, because one run says little", o.Seeds)
		}
		return runPapers(c.Context(), *table, o, *format)
	}
	return c
}

func runPapers(ctx context.Context, name string, o figures.Options, format string) error {
	table, err := figures.Find(name)
	if err != nil {
		return cli.Misuse("--table: %v", err)
	}
	o.Watch = func(text string) { fmt.Fprintln(os.Stderr, text) }
	o.Train = func(ctx context.Context, spec *runfile.Spec, out string, coin bool) error {
		_, err := local.Run(ctx, spec, local.Options{Out: out, Coin: coin})
		return err
	}
	result, err := figures.Run(ctx, table, o)
	if err != nil {
		return cli.Interrupted(ctx, err, "interrupted; a table cannot be resumed, start it again or choose --sets")
	}
	if format == "json" {
		return cli.PrintJSON(result)
	}
	return showPapers(result)
}

func showPapers(r *figures.Result) error {
	fmt.Printf("%s\n%s\n%s\n", r.Privacy, r.Title, r.Source)
	fmt.Printf("epsilon %g, delta %g, %d seeds\n\n", r.Epsilon, r.Delta, r.Seeds)
	w := cli.Columns()
	fmt.Fprintln(w, "data set\trows of\tAUROC\t±\tavg. precision\t±")
	for _, row := range r.Rows {
		for _, f := range []struct {
			who string
			figures.Figure
		}{{"real, ours", row.Real}, {"conclave", row.Ours}, {"conclave, coin flips", row.CoinFlips}} {
			fmt.Fprintf(w, "%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\n",
				row.Data, f.who, f.AUROC, f.AUROCSpread, f.AveragePrecision, f.PrecisionSpread)
		}
		for _, t := range row.Theirs {
			fmt.Fprintf(w, "%s\t%s, theirs\t%.3f\t\t%.3f\t\n", row.Data, t.Who, t.AUROC, t.AveragePrecision)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%s\n", r.Note)
	return nil
}
