// Command embed measures what synthetic data of embedding matching is worth, and what a warm
// start is worth to the GANs: it runs every line of a table on a real local cluster and prints
// it beside the same run of which nodes send nothing, so that noise is all that is released,
// beside real rows, and beside the figures of papers.
//
//	go run ./bench/embed --data DIR                             # all of it, an hour
//	go run ./bench/embed --data DIR --only 'flchain-*,mnist-1'
//	go run ./bench/embed --data DIR --only 'warm-*'             # warm starts
//
// DIR holds the data sets, each in a folder with its schema.yaml; flchain is part of the
// project. Figures come from real rows and are NOT PRIVATE.
package main

import (
	"flag"

	"github.com/conclave-dp/conclave/bench/table"
)

var program = &table.Program{Name: "embed", Pipeline: "embed", Null: "without records", Lines: lines, Alike: true}

func main() { program.Main(flag.NewFlagSet("embed", flag.ContinueOnError)) }
