package queue

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/requester"
)

func fetchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fetch --config student.yaml --out FILE.zip|DIR [--force] [--unproven] NAME",
		Short: "download the results of one of your runs from its worker",
		Long: `Downloads the bundle of a finished run from its worker: rows, model, schema, certificate, ledger,
signatures and the report without real rows. Only the submitter of the run can fetch it.

Before it writes a file, the command verifies the bundle like conclave verify, with the authority of the configuration
(tls.ca) and against the run's last entry in the aggregator's ledger.`,
		Args:              cli.OneArgument("the name of a run"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := requester.Fetching{}
	c.Flags().StringVar(&f.Out, "out", "", "`path` of the bundle, ending in .zip, or of a folder for its files")
	c.Flags().BoolVar(&f.Force, "force", false, "replace an existing file, or the files of a bundle in a folder")
	c.Flags().BoolVar(&f.Unproven, "unproven", false, "accept a bundle without a signature")
	c.PreRunE = func(*cobra.Command, []string) error {
		if f.Out == "" {
			return cli.Misuse("--out: give a file that ends in .zip, or a folder")
		}
		return f.Check()
	}
	return connected(c, func(ctx context.Context, q *client, name string) error {
		f.Run, f.Authority = name, q.authority
		return fetch(ctx, q, f)
	})
}

func fetch(ctx context.Context, q *client, f requester.Fetching) error {
	var shown *progress.Bytes
	defer func() { shown.Close() }()
	f.Begin = func(bytes int64) io.Writer {
		shown.Close()
		shown = progress.NewBytes(os.Stderr, bytes)
		return shown
	}
	came, err := f.Fetch(ctx, q.Queue)
	if err != nil {
		return cli.Interrupted(ctx, err, "interrupted; nothing was written")
	}
	shown.Close()
	if q.json {
		return cli.PrintJSON(struct {
			Run     string      `json:"run"`
			Files   int         `json:"files"`
			Bytes   int64       `json:"bytes"`
			Out     string      `json:"out"`
			Verdict proof.State `json:"verdict"`
		}{f.Run, came.Files, came.Bytes, f.Out, came.Verdict})
	}
	fmt.Printf("%s: %s of run %s, %s\n", f.Out, text.Several(came.Files, "file"), f.Run, map[proof.State]string{
		proof.Proven:  "all checks passed",
		proof.Missing: "NOT PROVEN: a signature is missing; run conclave verify to see whose",
	}[came.Verdict])
	return nil
}
