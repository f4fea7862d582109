// Command dpgan measures what synthetic data of DPGAN is worth: it runs every line of a
// table on a real local cluster and prints it beside the same run of which nodes send
// nothing, so that noise is all that is released, beside real rows, and beside the figures
// of papers.
//
//	go run ./bench/dpgan --data DIR                             # all of it, hours
//	go run ./bench/dpgan --data DIR --only 'flchain-*,mnist-10'
//	go run ./bench/dpgan --data DIR --only 'nd-*,even-*' --plot nd.svg # the effect of n_D
//
// DIR holds the data sets, each in a folder with its schema.yaml; flchain is part of the
// project. Figures come from real rows and are NOT PRIVATE.
package main

import (
	"flag"
	"os"

	"github.com/conclave-dp/conclave/bench/table"
)

var program = &table.Program{Name: "dpgan", Pipeline: "dpgan", Null: "without records", Lines: lines}

func main() {
	f := flag.NewFlagSet("dpgan", flag.ContinueOnError)
	path := f.String("plot", "", "file for a picture (SVG) of the lines nd-... and even-...")
	program.Done = func(results []*table.Result) error {
		if *path == "" {
			return nil
		}
		svg, err := plot(results)
		if err != nil {
			return err
		}
		return os.WriteFile(*path, svg, 0o644)
	}
	program.Main(f)
}
