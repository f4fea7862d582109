// Command student trains a generator from an aggregator's releases and writes
// the synthetic data with its certificate. With queue: true it is a worker: it takes
// runs from the aggregator's queue until it is stopped.
package main

import (
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/cli/programs/student"
)

func main() { cli.Main(student.Command()) }
