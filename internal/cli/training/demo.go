package training

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/pipelines"
)

func demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo [--out DIR] [flags]",
		Short: "train on the built-in example, end to end",
	}
	r := newRunFlags(c, "conclave-demo")
	names := pipelines.Names(nil)
	pipeline := cli.Choice(c, "pipeline", flchain.Pipeline, "the `pipeline` to train with: "+strings.Join(names, ", "),
		names...)
	masked := c.Flags().Bool("masked", false,
		"hide the sites' sums from the aggregator: it sees only noisy totals")
	c.RunE = func(c *cobra.Command, _ []string) error { return demo(c.Context(), *pipeline, *masked, r) }
	return c
}

func demo(ctx context.Context, pipeline string, masked bool, r *runFlags) error {
	if r.out == "" {
		return cli.Misuse("--out: give a folder")
	}
	// The example is public, so restarting the demo breaks no guarantee: the results of an earlier demo are removed.
	if err := clearDemo(r.out); err != nil {
		return err
	}
	example := filepath.Join(r.out, "example")
	if err := os.CopyFS(example, flchain.Files); err != nil {
		return fmt.Errorf("unpack the example: %w", err)
	}
	path := filepath.Join(example, "run.yaml")
	if err := flchain.SetPipeline(path, pipeline); err != nil {
		return err
	}
	if masked {
		if err := flchain.SetMasked(path); err != nil {
			return err
		}
	}
	if *r.format == "text" {
		fmt.Fprintf(os.Stderr, "demo: two sites, an aggregator and a student on this machine train with %s\n", pipeline)
	}
	r.unregistered = true
	return cli.Interrupted(ctx, r.train(ctx, path), "interrupted; run the same command to start the demo again")
}

var demoFiles = []string{
	"example", "state", "model", "synthetic.csv", "ledger.jsonl", "certificate.json",
	"report.html", "report.md", "report.json", "shared", "manifest.json", "signatures.json",
}

// clearDemo removes the files of an earlier demo, and nothing else.
func clearDemo(out string) error {
	entries, err := os.ReadDir(out)
	if os.IsNotExist(err) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the output folder: %w", err)
	}
	shipped, err := flchain.Files.ReadFile("schema.yaml")
	if err != nil {
		return fmt.Errorf("read the example: %w", err)
	}
	found, err := os.ReadFile(filepath.Join(out, "example", "schema.yaml"))
	if err != nil || !bytes.Equal(found, shipped) {
		return fmt.Errorf("%s is not empty and not an earlier demo; give another folder with --out", out)
	}
	for _, name := range demoFiles {
		if err := os.RemoveAll(filepath.Join(out, name)); err != nil {
			return fmt.Errorf("remove the earlier demo: %w", err)
		}
	}
	return nil
}
