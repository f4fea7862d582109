// Command gpate measures what synthetic data of G-PATE is worth: it runs every line of
// a table on a real local cluster and prints it beside coin flips in the place of the
// teachers' gradients, beside real rows, and beside the figures of the paper.
//
//	go run ./bench/gpate --data DIR                      # all of it, hours
//	go run ./bench/gpate --data DIR --only adult-sum,mnist-sum
//
// DIR holds the data sets, each in a folder with its schema.yaml; flchain is part of the
// project. Figures come from real rows and are NOT PRIVATE.
package main

import (
	"flag"

	"github.com/conclave-dp/conclave/bench/table"
)

var program = &table.Program{Name: "gpate", Pipeline: "gpate", Null: "coin flips", Lines: lines, Once: once}

func main() { program.Main(flag.NewFlagSet("gpate", flag.ContinueOnError)) }
