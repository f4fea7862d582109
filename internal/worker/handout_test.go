package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// finish marks a run as done by the worker in the queue.
func (c *cluster) finish(name string) {
	c.t.Helper()
	c.submit(name, same)
	client, err := student.Dial(c.config, c.log)
	testkit.Must(c.t, err)
	defer client.Close()
	held, err := client.Queue().Claim(testkit.Within(c.t), &conclavev1.Worker{Dataset: "d", Name: "w", Process: "w"})
	testkit.Must(c.t, err)
	testkit.Must(c.t, held.Finish(testkit.Within(c.t), conclavev1.RunState_RUN_STATE_DONE, "", nil))
}

// fetch fetches a run's bundle, with as many restarts as needed.
func (c *cluster) fetch(name string) ([]byte, error) {
	c.t.Helper()
	var came bytes.Buffer
	announced := int64(0)
	err := c.queue.Fetch(testkit.Within(c.t), name, func(bytes int64) (io.Writer, error) {
		came.Reset()
		announced = bytes
		return &came, nil
	})
	if err == nil && announced != int64(came.Len()) {
		c.t.Errorf("%d bytes came of %d", came.Len(), announced)
	}
	return came.Bytes(), err
}

// A worker's bundle arrives unchanged, in chunks of a valid size; if it cannot be sent, the reason arrives.
func TestWhatIsHandedOutComes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.finish("a")
	bundles := map[string][]byte{"a": make([]byte, 1<<20+12345)}
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(bundles["a"])
	worker, err := student.Dial(c.config, zap.NewNop())
	testkit.Must(t, err)
	defer worker.Close()
	ctx, stop := context.WithCancel(testkit.Within(t))
	offered := make(chan error, 1)
	go func() {
		offered <- worker.Queue().Offer(ctx, "w", func(run string, send student.Send) error {
			raw := bundles[run]
			if raw == nil {
				return errors.New("its folder was removed")
			}
			return send(int64(len(raw)), func(w io.Writer) error {
				for piece := range slices.Chunk(raw, 300_001) { // pieces differ from chunks
					if _, err := w.Write(piece); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}()
	var came []byte
	testkit.Eventually(t, "the run", func() bool { // once its worker is there
		came, err = c.fetch("a")
		return err == nil
	})
	if !bytes.Equal(came, bundles["a"]) {
		t.Error("other bytes came")
	}
	full := errors.New("no room")
	nowhere := func(int64) (io.Writer, error) { return nil, full }
	if err := c.queue.Fetch(testkit.Within(t), "a", nowhere); !errors.Is(err, full) {
		t.Errorf("where nothing can be written: %v", err)
	}
	if _, err := c.fetch("b"); !errors.Is(err, student.ErrNotHeld) ||
		!strings.Contains(err.Error(), `has not submitted a run "b"`) {
		t.Errorf("of no run: %v", err)
	}
	c.finish("b")
	if _, err := c.fetch("b"); !errors.Is(err, student.ErrRefused) ||
		!strings.Contains(err.Error(), "its folder was removed") {
		t.Errorf("of a folder that is gone: %v", err)
	}
	stop()
	if err := testkit.Receive(t, offered); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("offering ended with %v", err)
	}
}

// A real worker reports what its folder lacks, and continues.
func TestAWorkerHandsOutItsFolders(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.finish("a")
	c.finish("b")
	folder := filepath.Join(c.config.Out, "b")
	testkit.Must(t, os.MkdirAll(folder, 0o755))
	j := c.journal()
	stop, _ := c.work(c.config)
	var err error
	testkit.Eventually(t, "the worker", func() bool {
		_, err = c.fetch("a")
		return strings.Contains(err.Error(), "its folder was removed, after the worker's keep_results")
	})
	if _, err := c.fetch("b"); err == nil || !strings.Contains(err.Error(), "read the run's certificate") {
		t.Errorf("of an empty folder: %v", err)
	}
	testkit.Must(t, stop())
	if !j.has("run not sent", `"run":"b"`) {
		t.Errorf("the log has\n%s", strings.Join(j.lines(), "\n"))
	}
}

// Folders of runs that finished before a time are removed; anything else stays.
func TestOldResultsAreRemoved(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	now := time.Now()
	old := now.Add(-2 * time.Hour)
	for name, made := range map[string]struct {
		at    time.Time
		files []string
	}{
		"old":         {old, []string{"run.yaml", "schema.yaml", "manifest.json", "synthetic.csv"}},
		"new":         {now, []string{"run.yaml", "schema.yaml", "manifest.json"}},
		"under-way":   {old, []string{"run.yaml", "schema.yaml"}},
		"not-a-run":   {old, []string{"manifest.json"}},
		".hidden":     {old, []string{"run.yaml", "schema.yaml", "manifest.json"}},
		"old/in/deep": {old, []string{"run.yaml", "schema.yaml", "manifest.json"}},
	} {
		for _, file := range made.files {
			path := filepath.Join(out, name, file)
			testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			testkit.Must(t, os.WriteFile(path, nil, 0o600))
			testkit.Must(t, os.Chtimes(path, made.at, made.at))
		}
	}
	testkit.Must(t, os.Symlink(filepath.Join(out, "new"), filepath.Join(out, "link")))
	forget(out, now.Add(-time.Hour), zap.NewNop())
	left := map[string]bool{}
	entries, err := os.ReadDir(out)
	testkit.Must(t, err)
	for _, e := range entries {
		left[e.Name()] = true
	}
	want := []string{".hidden", "link", "new", "not-a-run", "under-way"}
	if got := slices.Sorted(maps.Keys(left)); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}
