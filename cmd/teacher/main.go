// Command teacher is the node of a site: it trains the site's teachers and
// answers the aggregator's rounds. It only dials out.
//
// Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-dp/conclave/logging"
	"github.com/conclave-dp/conclave/teacher"
	"github.com/conclave-dp/conclave/version"
)

func main() {
	path := flag.String("config", "", "path of the node's YAML file")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *showVersion {
		fmt.Println(version.Software)
		return
	}
	if *path == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: teacher --config teacher.yaml")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := work(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, "teacher:", err)
		os.Exit(1)
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
	node, err := teacher.New(config, log)
	if err != nil {
		return err
	}
	node.ControlLevel(level)
	return node.Run(ctx)
}
