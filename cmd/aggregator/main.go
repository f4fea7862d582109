// Command aggregator serves teachers and students: it collects votes, adds
// noise, and charges every answer to the ledger in etcd.
package main

import "github.com/conclave-dp/conclave/internal/cli"

func main() { cli.Main(command()) }
