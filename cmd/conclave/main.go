// Command conclave is for operators, students and first steps: local runs, the demo, sampling, ledgers and
// certificates.
package main

import (
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/cli/programs/conclave"
)

func main() { cli.Main(conclave.Command()) }
