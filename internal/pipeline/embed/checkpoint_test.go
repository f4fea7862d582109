package embed_test

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
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// saved is a checkpoint in the middle of a fit.
func saved(t *testing.T, v variant) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "student.safetensors")
	tr, stop, kept := mustTrain(t, v, v.own(t), 1), errors.New("stop"), 0
	err := tr.Run(context.Background(), func() error {
		if kept++; kept < 4 {
			return nil
		}
		return errors.Join(tr.Save(path, "run"), stop)
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// A damaged checkpoint is refused with what helps; damage that changes nothing, as in the
// padding of the header, may pass.
func TestDamagedCheckpointsAreRefused(t *testing.T) {
	v := variants()["a table"]
	path, content := saved(t, v)
	tr := mustTrain(t, v, v.own(t), 1)
	refuses := func(name string, content []byte, mayPass bool) {
		t.Helper()
		testkit.Must(t, os.WriteFile(path, content, 0o600))
		_, err := tr.Restore(path, "run")
		if err == nil && mayPass {
			return
		}
		if !errors.Is(err, pipeline.ErrDamaged) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "remove the file and run again") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	refuses("empty", nil, false)
	refuses("cut off", content[:len(content)/2], false)
	refuses("a byte less", content[:len(content)-1], false)
	refuses("zeros", make([]byte, len(content)), false)
	for i := 0; i < len(content); i += 1 + len(content)/120 {
		flipped := bytes.Clone(content)
		flipped[i] ^= 1 << (i % 8)
		refuses("a flipped bit", flipped, flipped[i] == ' ' || content[i] == ' ')
	}
}

// A checkpoint of another run, of other options or of another pipeline does not go on.
func TestCheckpointsAreTheirRuns(t *testing.T) {
	v := variants()["a table"]
	path, _ := saved(t, v)
	restore := func(v variant, identity string) error {
		_, err := mustTrain(t, v, v.own(t), 1).Restore(path, identity)
		return err
	}
	testkit.Must(t, restore(v, "run"))
	if err := restore(v, "other"); !errors.Is(err, pipeline.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "use another output folder") {
		t.Errorf("another run's: %v", err)
	}
	for name, change := range map[string]func(*embed.Options){
		"a wider generator": func(o *embed.Options) { o.Student.Hidden++ },
		"more waves":        func(o *embed.Options) { o.Features.Waves++ },
		"fewer features":    func(o *embed.Options) { o.Features.Pairs = 0 },
	} {
		other := v
		change(&other.o)
		if err := restore(other, "run"); !errors.Is(err, pipeline.ErrCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := filepath.Join(t.TempDir(), "other.safetensors")
	testkit.Must(t, pipeline.SaveCheckpoint(other, "gpate", struct{}{}, safetensors.New()))
	if _, err := mustTrain(t, v, v.own(t), 1).Restore(other, "run"); !errors.Is(err, pipeline.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "of another pipeline") {
		t.Errorf("another pipeline's: %v", err)
	}
}

// A checkpoint from before the question was answered holds no release: it is asked for.
func TestACheckpointBeforeTheRelease(t *testing.T) {
	v := variants()["a table"]
	path := filepath.Join(t.TempDir(), "student.safetensors")
	testkit.Must(t, mustTrain(t, v, v.own(t), 1).Save(path, "run"))
	oracle := v.own(t)
	tr := mustTrain(t, v, oracle, 1)
	if found, err := tr.Restore(path, "run"); err != nil || !found {
		t.Fatalf("restored %v, %v", found, err)
	}
	if err := tr.Run(context.Background(), nothing); err != nil || oracle.asked != 1 {
		t.Errorf("asked %d times, %v", oracle.asked, err)
	}
}
