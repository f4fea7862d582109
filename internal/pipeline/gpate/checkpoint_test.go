package gpate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// saved is a checkpoint in the middle of a run, with the next question in it.
func saved(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "student.safetensors")
	tr, stop := mustNew(t, movedOptions(), tableEncoder(t), 1), errors.New("stop")
	err := tr.Run(context.Background(), newCrowd(t, movedOptions(), tableEncoder(t), 10, tableRecord), 4, func() error {
		if tr.Rounds() < 2 {
			return nil
		}
		return errors.Join(tr.Save(path, "run"), stop)
	}, unseen)
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// A damaged checkpoint is refused with what helps.
func TestDamagedCheckpointsAreRefused(t *testing.T) {
	path, content := saved(t)
	tr := mustNew(t, movedOptions(), tableEncoder(t), 1)
	for name, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut off":   func(b []byte) []byte { return b[:len(b)/2] },
		"last byte": func(b []byte) []byte { return b[:len(b)-1] },
		"a bit":     func(b []byte) []byte { b[len(b)-40] ^= 4; return b },
	} {
		testkit.Must(t, os.WriteFile(path, damage(bytes.Clone(content)), 0o600))
		if _, err := tr.Restore(path, "run"); !errors.Is(err, pipeline.ErrDamaged) ||
			!strings.Contains(err.Error(), "remove the file and run again") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A checkpoint of something else is refused: of another run, of other options, of
// another pipeline, or with parts that do not fit.
func TestRestoreRefuses(t *testing.T) {
	path, content := saved(t)
	restore := func(o Options, identity string) error {
		_, err := mustNew(t, o, tableEncoder(t), 1).Restore(path, identity)
		return err
	}
	testkit.Must(t, restore(movedOptions(), "run"))
	if err := restore(movedOptions(), "another run"); !errors.Is(err, pipeline.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "use another output folder") {
		t.Errorf("another run's checkpoint: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"a wider generator": func(o *Options) { o.Student.Hidden++ },
		"more records":      func(o *Options) { o.Records += 2 },
		"more to train on":  func(o *Options) { o.Teacher.Training += 2 },
	} {
		o := movedOptions()
		change(&o)
		if err := restore(o, "run"); !errors.Is(err, pipeline.ErrCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	set, err := safetensors.Load(path)
	testkit.Must(t, err)
	state := set.Metadata["gpate"]
	for name, c := range map[string]struct{ old, new string }{
		"rounds that were not": {`"done":2`, `"done":3`},
		"less than no rounds":  {`"done":2`, `"done":-1`},
		"no counts":            {`"counts":[300,100]`, `"counts":null`},
		"another class":        {`"counts":[300,100]`, `"counts":[300,100,5]`},
		"a receipt too few":    {`"receipts":["counts",`, `"receipts":[`},
		"no random numbers":    {`"random":"`, `"random":"%`},
	} {
		changed := strings.Replace(state, c.old, c.new, 1)
		if changed == state {
			t.Fatalf("%s: no %q in %s", name, c.old, state)
		}
		set.Metadata["gpate"] = changed
		testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
		if err := restore(movedOptions(), "run"); !errors.Is(err, pipeline.ErrCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	delete(set.Metadata, "gpate")
	set.Metadata["pategan"] = state
	testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
	if err := restore(movedOptions(), "run"); !errors.Is(err, pipeline.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "another pipeline") {
		t.Errorf("a checkpoint of pategan: %v", err)
	}
	testkit.Must(t, os.WriteFile(path, content, 0o600))
	if found, err := mustNew(t, movedOptions(), tableEncoder(t), 1).Restore(path+"x", "run"); found || err != nil {
		t.Errorf("without a file: %v, %v", found, err)
	}
}
