package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/conclave-dp/conclave/internal/teacher/preflight"
)

// errProblems says that problems were found, which have been shown.
var errProblems = errors.New("problems found")

func preflightCommand(ctx context.Context, args []string) error {
	f, path, format := flags("preflight", "preflight --config FILE [--offline] [--format json]")
	offline := f.Bool("offline", false, "leave out the network")
	if _, err := parse(f, args, 0); err != nil {
		return err
	}
	report := preflight.Run(ctx, preflight.Options{Config: *path, Offline: *offline})
	if *format == "json" {
		if err := printJSON(report); err != nil {
			return err
		}
	} else {
		showReport(report)
	}
	if !report.OK {
		return errProblems
	}
	return nil
}

func showReport(r *preflight.Report) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	problems, warnings := 0, 0
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Status, c.Name, c.Detail)
		if c.Mend != "" {
			fmt.Fprintf(w, "\t\tmend: %s\n", c.Mend)
		}
		switch c.Status {
		case preflight.Problem:
			problems++
		case preflight.Warning:
			warnings++
		}
	}
	_ = w.Flush()
	fmt.Printf("%d problems, %d warnings\n", problems, warnings)
}
