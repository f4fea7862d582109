// Command student trains a generator from an aggregator's releases and writes
// the synthetic data with its certificate. With queue: true it is a worker: it takes
// runs from the aggregator's queue until it is stopped.
//
// Exit codes: 0 done, or a worker that was stopped, 1 failed, or a single run that was
// stopped, 2 wrong usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/version"
	"github.com/conclave-dp/conclave/internal/worker"
)

func main() {
	path := flag.String("config", "", "path of the student's YAML file")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *showVersion {
		fmt.Println(version.Software)
		return
	}
	if *path == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: student --config student.yaml")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := learn(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, "student:", err)
		os.Exit(1)
	}
}

func learn(ctx context.Context, path string) error {
	config, err := student.LoadConfig(path)
	if err != nil {
		return err
	}
	log, err := logging.New(config.Log)
	if err != nil {
		return err
	}
	if config.Queue {
		var printed error
		err := worker.Work(ctx, config, log, func(r *run.Result) { printed = errors.Join(printed, show(r)) })
		return errors.Join(err, printed)
	}
	spec, err := run.Load(config.Run)
	if err != nil {
		return err
	}
	client, err := student.Dial(config, log)
	if err != nil {
		return err
	}
	defer client.Close()
	display := progress.New(os.Stderr)
	result, err := run.Execute(ctx, spec, run.Options{
		Client: client, Dataset: config.Dataset, Out: config.Out, Log: log, Watch: display.Update,
	})
	display.Close()
	if err != nil {
		return err
	}
	return show(result)
}

// show prints a result as one line.
func show(result *run.Result) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	fmt.Println(string(raw))
	return nil
}
