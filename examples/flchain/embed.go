// Package flchain is the example of the quick start: a public medical table
// with its schema and a run. See README.md for where it comes from.
package flchain

import "embed"

// Files holds schema.yaml, run.yaml, train.csv.gz, test.csv.gz and README.md.
//
//go:embed schema.yaml run.yaml train.csv.gz test.csv.gz README.md
var Files embed.FS
