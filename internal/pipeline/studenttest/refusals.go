package studenttest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// With returns options with the values of a section of a run.yaml.
func With[O any](t *testing.T, o O, section string) O {
	t.Helper()
	testkit.Must(t, config.Decode(strings.NewReader(section), &o))
	return o
}

// RefusesOptions requires that each value of a field of a section is refused, and that the error names this
// field only. Functions that use the options must refuse it as well. Cases are fields of a run.yaml with
// values, separated by spaces.
func RefusesOptions[O interface{ Validate() error }](t *testing.T, section string, options func() O,
	cases map[string]string, make ...func(O) error) {
	t.Helper()
	for field, values := range cases {
		for value := range strings.FieldsSeq(values) {
			parts := strings.Split(field, ".")
			text := parts[len(parts)-1] + ": " + value
			if len(parts) == 2 {
				text = parts[0] + ": {" + text + "}"
			}
			o := With(t, options(), text)
			err := o.Validate()
			if err == nil || !strings.HasPrefix(err.Error(), section+"."+field) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %s: error %v", field, value, err)
			}
			for _, make := range make {
				if make(o) == nil {
					t.Errorf("%s: %s: something was made of it", field, value)
				}
			}
		}
	}
}

// RefusesCheckpoints requires that a student refuses a checkpoint that [Case.Stopped] made for a [Case], if it
// belongs to another run, other options or another pipeline, is damaged, or is made of parts. Edits replace
// text in its state. Fix is the advice for a damaged one.
func (c Case[Q]) RefusesCheckpoints(t *testing.T, path, pipelineName, fix string, others map[string]Trainer,
	edits map[string][2]string) {
	t.Helper()
	refused := func(name, identity string, tr Trainer, kind error, says string) {
		t.Helper()
		found, err := tr.Restore(path, identity)
		if found || !errors.Is(err, kind) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(),
			path) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	if found, err := c.begun().Restore(path, "run"); !found || err != nil {
		t.Fatalf("its own checkpoint: %v, %v", found, err)
	}
	refused("another run's", "other", c.begun(), pipeline.ErrCheckpoint, "use another output folder")
	for name, tr := range others {
		if c.Records != nil {
			c.Records.begins(tr)
		}
		refused(name, "run", tr, pipeline.ErrCheckpoint, "")
	}
	content := testkit.Read(t, path)
	testkit.Must(t, os.WriteFile(path, content[:len(content)-1], 0o600))
	refused("a byte less", "run", c.begun(), pipeline.ErrDamaged, fix)
	testkit.Must(t, os.WriteFile(path, content, 0o600))
	set := testkit.Value(safetensors.Load(path))
	state := set.Metadata[pipelineName]
	for name, edit := range edits {
		if set.Metadata[pipelineName] = strings.Replace(state, edit[0], edit[1],
			1); set.Metadata[pipelineName] == state {
			t.Fatalf("%s: no %q in %s", name, edit[0], state)
		}
		testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
		refused(name, "run", c.begun(), pipeline.ErrCheckpoint, "")
	}
	set.Metadata = map[string]string{"other": state}
	testkit.Must(t, errors.Join(set.Seal(), safetensors.Save(path, set)))
	refused("another pipeline's", "run", c.begun(), pipeline.ErrCheckpoint, "belongs to another pipeline")
}
