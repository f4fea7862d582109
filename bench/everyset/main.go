// Command everyset runs each stage and each method of weights once on each of seven data
// sets, with two sites and training cut short, and verifies every ledger with its
// certificate: it measures nothing but that all of them run. It fails if one does not.
//
//	go run ./bench/everyset --data DIR --seeds 1
//	go run ./bench/everyset --data DIR --seeds 1 --only 'adult-*' --cases 'pgb*'
//
// DIR holds the data sets, each in a folder with its schema.yaml.
package main

import "github.com/conclave-dp/conclave/bench/stages"

var program = &stages.Program{Name: "everyset", Groups: groups(), Strict: true}

func main() { program.Main() }
