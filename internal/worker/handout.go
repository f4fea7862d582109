package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/student"
)

// handOut sends the bundles of finished runs to those whom the aggregator authorizes, until ctx ends. It returns
// if the aggregator does not support this.
func handOut(ctx context.Context, c student.Config, log *zap.Logger) {
	client, err := student.Dial(c, log)
	if err == nil {
		defer client.Close()
	}
	for err == nil && ctx.Err() == nil {
		err = client.Queue().Offer(ctx, c.Worker, func(run string, send student.Send) error {
			return bundle(c.Out, run, send)
		})
		if errors.Is(err, student.ErrFailed) { // which is temporary: runs wait for it, too
			err = nil
			dial.Wait(ctx, retryAfter)
		}
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("finished runs cannot be fetched: submitters must copy their folders", zap.Error(err))
	}
}

// bundle sends the bundle of a run in a folder. The name comes from another machine.
func bundle(out, run string, send student.Send) error {
	if err := config.CheckName(run); err != nil {
		return err
	}
	folder, err := proof.OpenFolder(filepath.Join(out, run))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("its folder was removed, after the worker's keep_results or by hand")
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	s, err := proof.NewSending(folder)
	if err != nil {
		return err
	}
	return send(s.Bytes(), s.Write)
}

// forgetEvery is the interval between searches for old results.
const forgetEvery = time.Hour

// forgetOld removes the folders of runs that finished longer ago than keep, until ctx ends.
func forgetOld(ctx context.Context, out string, keep time.Duration, log *zap.Logger) {
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			forget(out, time.Now().Add(-keep), log)
		case <-ctx.Done():
			return
		}
	}
}

// forget removes the folders of runs that were finished before a time.
func forget(out string, before time.Time, log *zap.Logger) {
	for _, name := range run.Finished(out, before) {
		path := filepath.Join(out, name)
		if err := os.RemoveAll(path); err != nil {
			log.Warn("could not remove old results; remove them by hand", zap.String("run", name), zap.Error(err))
			continue
		}
		log.Info("old results removed (keep_results)", zap.String("run", name), zap.String("folder", path))
	}
}
