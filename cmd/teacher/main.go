// Command teacher is the node of a site: it trains the site's teachers and
// answers the aggregator's rounds. It only dials out. Its commands are for the people of
// the site: what a node needs, what would leave, which runs asked.
//
// Exit codes: 0 done or stopped by a signal, 1 failed or problems found, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/teacher"
	"github.com/conclave-dp/conclave/internal/version"
)

func main() {
	if len(os.Args) > 1 {
		for _, c := range commands() {
			if c.name == os.Args[1] {
				os.Exit(exitCode(c))
			}
		}
	}
	path := flag.String("config", "", "path of the node's YAML file")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *showVersion {
		fmt.Println(version.Software)
		return
	}
	if *path == "" || flag.NArg() > 0 {
		usage(os.Stderr)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := work(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, "teacher:", err)
		os.Exit(1)
	}
}

// exitCode runs a command with the arguments behind its name.
func exitCode(c command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := c.run(ctx, os.Args[2:]); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, errProblems): // they have been shown
		return 1
	default:
		fmt.Fprintln(os.Stderr, "teacher:", err)
		return 1
	}
}

func work(ctx context.Context, path string) error {
	config, err := teacher.LoadConfig(path)
	if err != nil {
		return err
	}
	log, level, err := logging.NewLeveled(config.Log)
	if err != nil {
		return err
	}
	node, err := newNode(ctx, config, log)
	if node == nil {
		return err
	}
	node.ControlLevel(level)
	return node.Run(ctx)
}

// newNode reads the site's records, which may take minutes of a database; a signal
// ends that at once. Then there is neither a node nor an error.
func newNode(ctx context.Context, config teacher.Config, log *zap.Logger) (*teacher.Node, error) {
	type made struct {
		node *teacher.Node
		err  error
	}
	done := make(chan made, 1)
	go func() {
		node, err := teacher.New(config, log)
		done <- made{node, err}
	}()
	select {
	case m := <-done:
		return m.node, m.err
	case <-ctx.Done():
		return nil, nil
	}
}
