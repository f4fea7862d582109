// Package worker takes runs from the aggregator's queue, one after the other, and executes each like a single run, in
// its own folder.
//
// Start with [Work]. A run interrupted by a signal, a crash or a lost aggregator returns to its place in the queue,
// and the next worker continues from the checkpoint in its folder. A worker's input was written by others, so it is
// checked again before use.
package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxFolders is the largest number of unfinished runs that a worker reports to the aggregator.
	maxFolders = 1000
	// retryAfter is the pause after a run was returned because of the aggregator.
	retryAfter = 5 * time.Second
	// linger is how long a stopping worker tries to report how a run ended.
	linger = 10 * time.Second
)

// Work takes runs of the configured dataset until ctx ends, which is not an error. finished is called for each
// finished run, by one goroutine at a time. It fails if no run can be executed: the aggregator refuses the worker,
// or the output folder is not writable.
func Work(ctx context.Context, config student.Config, log *zap.Logger, finished func(*results.Result)) error {
	if err := probe(config.Out); err != nil {
		return err
	}
	results := make(chan *results.Result)
	told := make(chan struct{})
	go func() {
		defer close(told)
		for r := range results {
			finished(r)
		}
	}()
	slots, own := errgroup.WithContext(ctx)
	for i := range config.Workers {
		name := config.Worker
		if config.Workers > 1 {
			name = fmt.Sprintf("%s.%d", config.Worker, i+1)
		}
		slots.Go(func() error {
			s := &slot{config: config, name: name, log: log.With(zap.String("worker", name)), results: results}
			err := s.work(own)
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	var beside sync.WaitGroup // they end with the slots
	beside.Go(func() { handOut(own, config, log) })
	if config.KeepResults > 0 {
		log.Info("results are removed after this time (keep_results)", zap.Duration("keep", config.KeepResults),
			zap.String("out", config.Out))
		beside.Go(func() { forgetOld(own, config.Out, config.KeepResults, log) })
	}
	err := slots.Wait()
	beside.Wait()
	close(results)
	<-told
	return err
}

// leastRoom is the free space in bytes that an output folder needs before the worker takes a run; otherwise runs
// would fail one after the other.
const leastRoom = 16 << 20

// probe finds an output folder that cannot be written, or is full, before a run is taken.
func probe(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("out: %w; give a writable folder", err)
	}
	f, err := os.CreateTemp(out, ".probe-*")
	if err != nil {
		return fmt.Errorf("out: %w; give a writable folder", err)
	}
	if _, err = f.Write(make([]byte, leastRoom)); err != nil {
		err = fmt.Errorf("out: %w; free at least %d bytes", err, leastRoom)
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// slot works on one run at a time.
type slot struct {
	config  student.Config
	name    string
	log     *zap.Logger
	results chan<- *results.Result
}

func (s *slot) work(ctx context.Context) error {
	client, err := student.Dial(s.config, s.log)
	if err != nil {
		return err
	}
	defer client.Close()
	queue := client.Queue()
	// Asked first, so that a configuration error is reported at once.
	if _, _, err := queue.List(ctx, s.config.Dataset); err != nil {
		return err
	}
	s.log.Info("waiting for runs", zap.String("dataset", s.config.Dataset))
	for {
		held, err := queue.Claim(ctx, &conclavev1.Worker{
			Dataset: s.config.Dataset, Name: s.name, Process: s.config.Worker,
			Folders: run.Begun(s.config.Out, maxFolders),
		})
		if err != nil {
			return err
		}
		if err := s.execute(ctx, held); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// execute works on a run until it ends, one way or the other. An error is the worker's own.
func (s *slot) execute(ctx context.Context, held *student.Held) error {
	log := s.log.With(zap.String("run", held.Run.GetName()))
	log.Info("run claimed")
	result, err := s.run(ctx, held)
	return s.settle(ctx, held, log, result, err)
}

// run executes a run to its files.
func (s *slot) run(ctx context.Context, held *student.Held) (*results.Result, error) {
	submitted, err := run.ParseSubmission(held.Run.GetName(), held.Run.GetRunYaml(), held.Run.GetSchemaYaml(),
		held.Run.GetStudyYaml())
	if err != nil {
		return nil, err
	}
	// ParseSubmission has checked that the name is one path element.
	out, err := filepath.Abs(filepath.Join(s.config.Out, submitted.Spec.Name))
	if err != nil {
		return nil, err
	}
	if err := submitted.Write(out); err != nil {
		return nil, err
	}
	job, err := submitted.Job(out, held.Run.GetSpec())
	if err != nil {
		return nil, err
	}
	// The context ends when the run is lost or the worker is stopped.
	executing, cancel := context.WithCancel(held.Context())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return job.Execute(executing, run.Options{
		Client: held.Client(), Dataset: s.config.Dataset, Out: out, Log: s.log,
		Watch: func(status run.Status) { held.Report(progressOf(status)) },
	})
}

func progressOf(s run.Status) *conclavev1.RunProgress {
	return &conclavev1.RunProgress{
		Round: uint64(max(0, s.Round)), Rounds: uint64(max(0, s.Rounds)), Of: s.Of,
		EpsilonSpent: s.EpsilonSpent, Epsilon: s.Epsilon, Waiting: s.Waiting, Part: s.Part, Halted: s.Halted,
	}
}
