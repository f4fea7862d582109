// Package worker takes runs from the aggregator's queue, one after the other, and executes
// each as a single run is, in a folder of its own.
//
// Start with [Work]. A run that is interrupted, whether by a signal, a crash or a lost
// aggregator, goes back to its place in the queue, and whoever takes it next goes on from the
// checkpoint in its folder. What a worker is handed was written by others: it is
// checked again before anything of it is used.
package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/run"
	"github.com/conclave-dp/conclave/student"
)

const (
	// maxFolders is how many begun runs an aggregator is told of.
	maxFolders = 1000
	// retryAfter is the pause after a run that was given back because of the aggregator.
	retryAfter = 5 * time.Second
	// linger is how long a worker that was told to stop tries to say how a run ended.
	linger = 10 * time.Second
)

// Work takes runs of the configured dataset until ctx ends, which is no error. finished is
// told of each run that was done, by one goroutine at a time. It returns an error where no run
// could be worked on any more: the aggregator refuses the worker, or the output folder
// cannot be written.
func Work(ctx context.Context, config student.Config, log *zap.Logger, finished func(*run.Result)) error {
	if err := probe(config.Out); err != nil {
		return err
	}
	results := make(chan *run.Result)
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
			err := (&slot{config: config, name: name, log: log.With(zap.String("worker", name)), results: results}).work(own)
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	err := slots.Wait()
	close(results)
	<-told
	return err
}

// probe finds an output folder that cannot be written before a run is taken.
func probe(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("out: %w; name a folder that this process may write to", err)
	}
	f, err := os.CreateTemp(out, ".probe-*")
	if err != nil {
		return fmt.Errorf("out: %w; name a folder that this process may write to", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// slot works on one run at a time.
type slot struct {
	config  student.Config
	name    string
	log     *zap.Logger
	results chan<- *run.Result
}

func (s *slot) work(ctx context.Context) error {
	client, err := student.Dial(s.config, s.log)
	if err != nil {
		return err
	}
	defer client.Close()
	queue := client.Queue()
	// Asked first, so that a mistake in the configuration is said at once and not waited on.
	if _, _, err := queue.List(ctx, s.config.Dataset); err != nil {
		return err
	}
	s.log.Info("waiting for runs", zap.String("dataset", s.config.Dataset))
	for {
		held, err := queue.Claim(ctx, &conclavev1.Worker{
			Dataset: s.config.Dataset, Name: s.name, Folders: run.Begun(s.config.Out, maxFolders),
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
	name := held.Run.GetName()
	log := s.log.With(zap.String("run", name))
	log.Info("run taken")
	result, err := s.run(ctx, held, log)
	// What is known is said although the worker stops, if it can be said soon.
	saying, silence := context.WithCancel(context.WithoutCancel(ctx))
	defer silence()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(linger, silence) })()
	lost := new(student.LostError)
	switch {
	case errors.As(context.Cause(held.Context()), &lost):
		log.Warn("run left", zap.Error(lost))
		held.GiveBack()
		return nil
	case err == nil:
		files, err := filesOf(result)
		if err != nil {
			held.GiveBack()
			return err
		}
		if err := held.Finish(saying, conclavev1.RunState_RUN_STATE_DONE, "", files); err != nil {
			log.Warn("run done, and the queue does not take it", zap.Error(err))
			return nil
		}
		log.Info("run done", zap.Float64("epsilon_spent", result.EpsilonSpent), zap.Int("rounds", result.Rounds))
		s.results <- result
		return nil
	case ctx.Err() != nil:
		log.Info("run given back: told to stop")
		held.GiveBack()
		return nil
	case errors.Is(err, student.ErrUnreachable), errors.Is(err, student.ErrFailed):
		log.Warn("run given back: the aggregator fails", zap.Error(err))
		held.GiveBack()
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
		return nil
	case isOwn(err):
		log.Error("run given back: this worker cannot go on", zap.Error(err))
		held.GiveBack()
		return fmt.Errorf("run %q was given back: %w", name, err)
	}
	state := conclavev1.RunState_RUN_STATE_FAILED
	if errors.Is(err, student.ErrOverBudget) {
		state = conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET
	}
	log.Warn("run ended", zap.Stringer("state", state), zap.Error(err))
	if err := held.Finish(saying, state, err.Error(), nil); err != nil {
		log.Warn("the queue does not take how the run ended", zap.Error(err))
	}
	return nil
}

// run executes a run to its files.
func (s *slot) run(ctx context.Context, held *student.Held, log *zap.Logger) (*run.Result, error) {
	submitted, err := run.ParseSubmission(held.Run.GetName(), held.Run.GetRunYaml(), held.Run.GetSchemaYaml())
	if err != nil {
		return nil, err
	}
	// The name is one path element: ParseSubmission has seen to it.
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
	// Ends when the run is lost, and when the worker is told to stop.
	executing, cancel := context.WithCancel(held.Context())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return job.Execute(executing, run.Options{
		Client: held.Client(), Dataset: s.config.Dataset, Out: out, Log: log,
		Watch: func(status run.Status) { held.Report(progressOf(status)) },
	})
}

// isOwn says whether an error is about the worker's disk and not about the run.
func isOwn(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}

func progressOf(s run.Status) *conclavev1.RunProgress {
	return &conclavev1.RunProgress{
		Round: uint64(max(0, s.Round)), Rounds: uint64(max(0, s.Rounds)), Of: s.Of,
		EpsilonSpent: s.EpsilonSpent, Epsilon: s.Epsilon, Waiting: s.Waiting, Part: s.Part,
	}
}

// filesOf names the files that a run left, with their hashes.
func filesOf(r *run.Result) (files []*conclavev1.RunResult, err error) {
	for _, name := range slices.Sorted(maps.Keys(r.Outputs)) {
		path := r.Outputs[name]
		if info, err := os.Stat(path); err != nil {
			return nil, err
		} else if !info.Mode().IsRegular() {
			continue // the model's folder, whose files name each other's hashes
		}
		sum, err := hashOf(path)
		if err != nil {
			return nil, err
		}
		files = append(files, &conclavev1.RunResult{Name: name, Path: path, Sha256: sum})
	}
	return files, nil
}

func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
