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
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// settle reports how a run ended, or returns it to the queue. The cause may be the run, the worker, or another worker
// that took the run; only the first is reported for the run. The returned error is the worker's own.
func (s *slot) settle(ctx context.Context, held *student.Held, log *zap.Logger, result *results.Result,
	err error) error {
	// A known result is reported even if the worker stops, if that takes little time.
	saying, silence := context.WithCancel(context.WithoutCancel(ctx))
	defer silence()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(linger, silence) })()
	cause := context.Cause(held.Context())
	lost := new(student.LostError)
	switch {
	case errors.As(cause, &lost):
		log.Warn("run left", zap.Error(lost))
		held.GiveBack()
		return nil
	case err == nil:
		files, err := filesOf(result)
		if err != nil {
			return giveUp(held, log, err)
		}
		if err := held.Finish(saying, conclavev1.RunState_RUN_STATE_DONE, "", files); err != nil {
			log.Warn("run done, but the queue does not accept its result", zap.Error(err))
			return nil
		}
		log.Info("run done", zap.Float64("epsilon_spent", result.EpsilonSpent), zap.Int("rounds", result.Rounds))
		s.results <- result
		return nil
	case ctx.Err() != nil:
		giveBack(held, log, zap.InfoLevel, "told to stop", nil)
		return nil
	case errors.Is(cause, student.ErrCertificate):
		return giveUp(held, log, cause)
	case isFull(err):
		log.Error("run left: this worker's disk is full, which counts as a lost worker", zap.Error(err))
		held.Leave()
		return fmt.Errorf("run %q was left, and counts as lost: %w; free some space, or lower "+
			"release.rows", held.Run.GetName(), err)
	case isOwn(err):
		return giveUp(held, log, err)
	case errors.Is(err, student.ErrUnreachable), errors.Is(err, student.ErrFailed):
		giveBack(held, log, zap.WarnLevel, "the aggregator fails", err)
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
		return nil
	}
	state := conclavev1.RunState_RUN_STATE_FAILED
	if errors.Is(err, student.ErrOverBudget) {
		state = conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET
	}
	// The refusal may concern this worker, which was disconnected for longer than its grace period.
	switch asked := held.Confirm(saying); {
	case errors.As(asked, &lost):
		log.Warn("run left", zap.Error(lost))
		held.GiveBack()
		return nil
	case errors.Is(asked, student.ErrCertificate):
		return giveUp(held, log, asked)
	case asked != nil:
		giveBack(held, log, zap.WarnLevel, "the queue does not name its worker", asked)
		return nil
	}
	if refused := held.Finish(saying, state, err.Error(), nil); refused != nil {
		log.Warn("run left: the queue does not accept its result", zap.Stringer("state", state),
			zap.NamedError("ended", err), zap.Error(refused))
		return nil
	}
	log.Warn("run ended", zap.Stringer("state", state), zap.Error(err))
	return nil
}

// giveBack returns a run to the queue, and logs whether the aggregator knows.
func giveBack(held *student.Held, log *zap.Logger, level zapcore.Level, why string, err error) (told bool) {
	if told = held.GiveBack(); told {
		log.Log(level, "run returned: "+why, zap.Error(err))
	} else {
		log.Warn("run left: "+why+"; the aggregator could not be told, and takes the run back after its worker_grace",
			zap.Error(err))
	}
	return told
}

// giveUp returns a run because of the worker's own problem, which it returns.
func giveUp(held *student.Held, log *zap.Logger, err error) error {
	if giveBack(held, log, zap.ErrorLevel, "this worker cannot continue", err) {
		return fmt.Errorf("run %q was returned: %w", held.Run.GetName(), err)
	}
	return fmt.Errorf("run %q was left; the aggregator returns it to the queue after its worker_grace: %w",
		held.Run.GetName(), err)
}

// isFull reports whether an error means that the worker's disk is full. The run itself may have filled it, which
// nobody can tell: if it went back to the queue without counting as lost, it would stop one worker after the other.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// isOwn reports whether an error is about the worker, its disk or its certificate, and not about the run.
func isOwn(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link) || errors.Is(err, student.ErrCertificate)
}

// filesOf names the files that a run left, with their hashes.
func filesOf(r *results.Result) (files []*conclavev1.RunResult, err error) {
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
