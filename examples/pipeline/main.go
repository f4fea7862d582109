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
	"flag"
	"fmt"
	"os"

	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// register is the one line that makes the pipeline known: to students, to nodes, to sites' policies.
// In package pipelines it is one line of the list.
func register() { pipelines.All = append(pipelines.All, tenNumbers) }

func main() {
	register()
	file := flag.String("run", "examples/pipeline/run.yaml", "the run's `file`")
	out := flag.String("out", "", "`folder` for the results")
	flag.Parse()
	if *out == "" {
		fmt.Fprintln(os.Stderr, "give a folder for the results with --out")
		os.Exit(2)
	}
	if err := run(*file, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, out string) error {
	spec, err := runfile.Load(file)
	if err != nil {
		return err
	}
	result, err := local.Run(context.Background(), spec, local.Options{Out: out})
	if err != nil {
		return err
	}
	fmt.Printf("spent epsilon %.3f of %v; the certificate is in %s\n", result.EpsilonSpent,
		spec.Privacy.Epsilon, out)
	return nil
}
