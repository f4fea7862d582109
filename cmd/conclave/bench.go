package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/conclave-dp/conclave/bench/papers"
)

const benchUsage = "usage: conclave bench papers [flags]; conclave bench papers --help shows the flags"

func benchCommand(ctx context.Context, args []string) error {
	return among(ctx, args, benchUsage, map[string]commandFunc{"papers": benchPapers})
}

func benchPapers(ctx context.Context, args []string) error {
	f := flags("bench papers", "bench papers --table NAME --data DIR [flags]")
	var names []string
	for _, t := range papers.Tables() {
		names = append(names, t.Name)
	}
	name := f.String("table", "", "the table to run: "+strings.Join(names, ", "))
	sets := f.String("sets", "", "only these data sets, separated by commas")
	o := papers.Options{}
	f.StringVar(&o.Data, "data", "", "folder of the data sets, each in a folder of its name with schema.yaml")
	f.IntVar(&o.Seeds, "seeds", 3, "runs of each kind, at least 3")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *name == "" || o.Data == "" {
		return misuse(f, "--table and --data are needed")
	}
	if o.Seeds < 3 {
		return misuse(f, "--seeds %d: use at least 3, since one run says little", o.Seeds)
	}
	table, err := papers.Find(*name)
	if err != nil {
		return misuse(f, "--table: %v", err)
	}
	if *sets != "" {
		o.Sets = strings.Split(*sets, ",")
	}
	o.Watch = func(text string) { fmt.Fprintln(os.Stderr, text) }
	result, err := papers.Run(ctx, table, o)
	if ctx.Err() != nil && err != nil {
		return errors.New("interrupted; a table cannot be resumed, start it again or choose --sets")
	}
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(result)
	}
	return showPapers(result)
}

func showPapers(r *papers.Result) error {
	fmt.Printf("%s\n%s\n%s\nepsilon %g, delta %g, %d seeds\n\n", r.Privacy, r.Title, r.Source, r.Epsilon, r.Delta, r.Seeds)
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "data set\trows of\tAUROC\t±\tavg. precision\t±")
	for _, row := range r.Rows {
		for _, f := range []struct {
			who string
			papers.Figure
		}{{"real, ours", row.Real}, {"conclave", row.Ours}, {"conclave, coin flips", row.CoinFlips}} {
			fmt.Fprintf(w, "%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\n", row.Data, f.who, f.AUROC, f.AUROCSpread, f.AveragePrecision, f.PrecisionSpread)
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
