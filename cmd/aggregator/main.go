// Command aggregator serves teachers and students: it collects votes, adds
// noise, and charges every answer to the ledger in etcd.
//
// Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/version"
)

func main() {
	path := flag.String("config", "", "path of the aggregator's YAML file")
	embedded := flag.Bool("embedded-etcd", false, "run an etcd in this process, whatever the file says")
	listen := flag.String("listen", "", "address to listen on instead of the file's")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *showVersion {
		fmt.Println(version.Software)
		return
	}
	if *path == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: aggregator --config aggregator.yaml [--embedded-etcd] [--listen HOST:PORT]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *path, *embedded, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "aggregator:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, path string, embedded bool, listen string) error {
	config, err := aggregator.LoadConfig(path, func(c *aggregator.Config) {
		if embedded {
			c.Etcd.Embedded, c.Etcd.Endpoints = true, nil
		}
		if listen != "" {
			c.Listen = listen
		}
	})
	if err != nil {
		return err
	}
	log, level, err := logging.NewLeveled(config.Log)
	if err != nil {
		return err
	}
	server, err := aggregator.New(ctx, config, aggregator.Options{Logger: log, Level: &level})
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		log.Info("stopped before it led")
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(server.Serve(ctx), server.Close())
}
