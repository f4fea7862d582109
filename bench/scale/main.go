// Command scale measures an aggregator with thousands of connections on one machine:
// rounds and bytes per second, memory for each idle connection, and processor time for
// each round, beside a bare gRPC server that sends and takes the same messages. Other
// commands measure masked sums, and the console's pages at a large cluster.
//
//	go run ./bench/scale                                  # the whole table, some minutes
//	go run ./bench/scale --sizes 1000x1 --blocks 4        # one line of it
//	go run ./bench/scale masked                           # masked sums beside plain ones
//	go run ./bench/scale console                          # pages of the console at a large cluster
//	go run ./bench/scale --readme bench/scale/README.md   # writes the table there
//
// See README.md in this folder.
package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

func main() { cli.Main(command()) }

// command measures; below it are the processes that a measurement starts beside the aggregator:
// its program starts itself again with a role's name.
func command() *cobra.Command {
	c := &cobra.Command{
		Use: "scale [flags]", Short: "compare an aggregator with thousands of connections with a plain gRPC server",
	}
	planned := planFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := planned()
		if err != nil {
			return err
		}
		results, err := measure(c.Context(), p)
		if err != nil {
			return err
		}
		text := markdown(p, results)
		fmt.Print(text)
		if p.readme != "" {
			return fill(p.readme, text)
		}
		return nil
	}
	c.AddCommand(maskedCommand(), consoleCommand(), nodesCommand(), echoCommand())
	return c
}

// plan is what is measured, and how long.
type plan struct {
	sizes  []size
	blocks int           // of each side, in turn
	block  time.Duration // how long one lasts, at least
	warm   int           // rounds of each side before the first block
	// settle is how long an aggregator is left alone before its memory is read: it gives back
	// what the handshakes left soon after the last of them.
	settle time.Duration
	audit  bool   // the aggregator keeps an audit log
	readme string // file whose table is replaced
	keep   string // folder to work in, kept afterwards; empty for a temporary one
}

// planFlags adds the flags of a plan, which is there when they are read.
func planFlags(c *cobra.Command) func() (plan, error) {
	p, flags := &plan{settle: 4 * time.Second}, c.Flags()
	sizes := flags.String("sizes", "250x1,500x1,1000x1,2000x1,4000x1,100x100,100x100x4",
		"comma-separated sizes: connections x teachers on each, and x students if there are several")
	flags.IntVar(&p.blocks, "blocks", 6, "blocks of rounds for each server, in turn")
	flags.DurationVar(&p.block, "block", 1500*time.Millisecond, "minimum duration of a block; it ends with a round")
	flags.IntVar(&p.warm, "warm", 3, "warm-up rounds of each server, not counted")
	flags.BoolVar(&p.audit, "audit", false, "let the aggregator write an audit log")
	flags.StringVar(&p.readme, "readme", "", "replace the table between the two marks in `file`")
	flags.StringVar(&p.keep, "keep", "", "keep certificates, etcd and logs in a new `folder`")
	return func() (plan, error) {
		var err error
		if p.sizes, err = parseSizes(*sizes); err != nil {
			return *p, cli.Misuse("--sizes: %v", err)
		}
		if p.blocks < 2 || p.block <= 0 || p.warm < 1 {
			return *p, cli.Misuse("--blocks: use at least 2, --block: more than 0s, --warm: at least 1")
		}
		return *p, nil
	}
}
