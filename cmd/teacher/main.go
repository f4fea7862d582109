// Command teacher is the node of a site: it trains the site's teachers and answers the aggregator's rounds. It only
// dials out. Its subcommands are for the people of the site: what a node needs, what would leave, and which runs
// asked.
package main

import (
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/cli/programs/teacher"
)

func main() { cli.Main(teacher.Command()) }
