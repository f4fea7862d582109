// Command weights measures importance weights of synthetic rows: every method that runs
// have, at the same budget in all, on data sets of Ghalebikesabi et al. (2022). See README.md.
//
//	go run ./bench/weights --data DIR --log weights.jsonl          # all of it, hours
//	go run ./bench/weights --data DIR --only '*-pategan-warm-*'
//	go run ./bench/weights --log weights.jsonl --tables            # of what was measured
//
// DIR holds the data sets, each in a folder with its schema.yaml. Figures come from real
// rows and are NOT PRIVATE.
package main

import "github.com/conclave-dp/conclave/bench/stages"

var program = &stages.Program{Name: "weights", Groups: groups()}

func main() { program.Main() }
