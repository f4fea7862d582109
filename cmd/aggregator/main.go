// Command aggregator serves teachers and students: it collects votes, adds
// noise, and charges every answer to the ledger in etcd.
package main

import (
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/cli/programs/aggregator"
)

func main() { cli.Main(aggregator.Command()) }
