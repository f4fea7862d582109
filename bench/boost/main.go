// Command boost measures private post-GAN boosting and discriminator rejection on the
// paper's experiments with tables: a GAN, and the same GAN with rejection, boosting, and
// both, at the same budget in all. See README.md.
//
//	go run ./bench/boost --data DIR --log boost.jsonl            # all of it, hours
//	go run ./bench/boost --data DIR --only 'titanic-pategan-*'
//	go run ./bench/boost --log boost.jsonl --tables              # of what was measured
//
// DIR holds the data sets, each in a folder with its schema.yaml. Figures come from real
// rows and are NOT PRIVATE.
package main

import "github.com/conclave-dp/conclave/bench/stages"

var program = &stages.Program{Name: "boost", Groups: groups()}

func main() { program.Main() }
