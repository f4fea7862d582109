package pategan

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// saved is a checkpoint in the middle of a run.
func saved(t *testing.T, oracle Oracle) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "student.safetensors")
	tr, stop := testTrainer(t, smallOptions(), 1), errors.New("stop")
	err := tr.Run(context.Background(), oracle, 48, func() error {
		if tr.Rounds() < 2 {
			return nil
		}
		return errors.Join(tr.Save(path, "run"), stop)
	}, func(pipeline.Progress) {})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// A damaged checkpoint would go on with another generator than the one that its
// releases made. It is refused with what helps; damage that changes nothing,
// as in the padding of the header, may pass.
func TestDamagedCheckpointsAreRefused(t *testing.T) {
	path, content := saved(t, newCrowd(t, smallOptions(), 0.05))
	tr := testTrainer(t, smallOptions(), 1)
	for name, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut off":   func(b []byte) []byte { return b[:len(b)/2] },
		"last byte": func(b []byte) []byte { return b[:len(b)-1] },
		"zeros":     func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		refuses(t, tr, name, path, damage(bytes.Clone(content)), false)
	}
	for i := 0; i < len(content); i += 1 + len(content)/150 {
		flipped := bytes.Clone(content)
		flipped[i] ^= 1 << (i % 8)
		refuses(t, tr, "a flipped bit", path, flipped, true)
	}
}

func refuses(t *testing.T, tr *Trainer, name, path string, content []byte, mayPass bool) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, content, 0o600))
	_, err := tr.Restore(path, "run")
	if err == nil && mayPass {
		again := filepath.Join(t.TempDir(), "again")
		testkit.Must(t, tr.Save(again, "run"))
		if raw, _ := os.ReadFile(again); len(raw) != len(content) ||
			bytes.Count(diff(raw, content), []byte{0}) < len(raw)-1 {
			t.Errorf("%s: another state was restored", name)
		}
		return
	}
	if !errors.Is(err, pipeline.ErrDamaged) || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "remove the file and run again") {
		t.Errorf("%s: error %v", name, err)
	}
}

func diff(a, b []byte) []byte {
	d := bytes.Clone(a)
	for i := range d {
		d[i] ^= b[i]
	}
	return d
}

// counted is a crowd whose answers say how many teachers took part.
type counted struct {
	*crowd
	teachers func(round uint64) int
}

func (o counted) ClassCounts(ctx context.Context, round uint64, classes int) (*pipeline.CountAnswer, error) {
	a, err := o.crowd.ClassCounts(ctx, round, classes)
	a.Teachers = o.teachers(round)
	return a, err
}

func (o counted) Votes(ctx context.Context, round uint64, q *pipeline.VoteQuestion) (*pipeline.VoteAnswer, error) {
	a, err := o.crowd.Votes(ctx, round, q)
	if err == nil {
		a.Teachers = o.teachers(round)
	}
	return a, err
}

// The least number of teachers is over all rounds, also those before a restart.
func TestTheLeastNumberOfTeachersIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		teachers func(uint64) int
		want     int
	}{
		"a node was away":            {func(r uint64) int { return map[uint64]int{1: 200}[r] + 200 }, 200},
		"away before the checkpoint": {func(r uint64) int { return 400 - map[uint64]int{2: 150}[r] }, 250},
		"away for the class counts":  {func(r uint64) int { return 400 - map[uint64]int{0: 100}[r] }, 300},
	} {
		oracle := counted{newCrowd(t, smallOptions(), 0.05), c.teachers}
		path, _ := saved(t, oracle)
		tr := testTrainer(t, smallOptions(), 1)
		if _, err := tr.Restore(path, "run"); err != nil {
			t.Fatal(err)
		}
		testkit.Must(t, tr.Run(context.Background(), oracle, 48, nothing, func(pipeline.Progress) {}))
		if got := tr.TeachersLeast; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
