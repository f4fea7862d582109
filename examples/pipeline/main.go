// Command pipeline is the smallest pipeline that there is, and a program that runs it: it asks
// the sites for one sum of ten numbers, has it released with noise, and prints it.
//
//	go run ./examples/pipeline --out ten
//
// kind.go is what nodes compute, pipeline.go what the student does, and main registers both with
// one line. docs/pipeline-parts.md walks through it.
package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// register is the one line that makes the pipeline known: to students, to nodes, to sites' policies.
// In package pipelines it is one line of the list.
func register() { pipelines.All = append(pipelines.All, tenNumbers) }

func main() {
	register()
	cli.Main(command())
}

func command() *cobra.Command {
	c := &cobra.Command{Use: "pipeline --out DIR", Short: "ask for one sum of ten numbers, and print it"}
	file := c.Flags().String("run", "examples/pipeline/run.yaml", "the run's `file`")
	out := c.Flags().String("out", "", "`folder` for the results")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *out == "" {
			return cli.Misuse("give a folder for the results with --out")
		}
		return run(c.Context(), *file, *out)
	}
	return c
}

func run(ctx context.Context, file, out string) error {
	spec, err := runfile.Load(file)
	if err != nil {
		return err
	}
	result, err := local.Run(ctx, spec, local.Options{Out: out})
	if err != nil {
		return err
	}
	fmt.Printf("spent epsilon %.3f of %v; the certificate is in %s\n", result.EpsilonSpent,
		spec.Privacy.Epsilon, out)
	return nil
}
