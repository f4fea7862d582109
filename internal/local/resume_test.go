package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// A stopped run continues from its checkpoint and charges no round twice: existing ledger entries stay. Another run
// in its folder is refused and changes nothing. The advice in the error about a damaged checkpoint works: without the
// checkpoint the student gets the stored releases again. A closed run whose files are lost is published again from
// its releases, with the same rows.
func TestAnInterruptedRunGoesOn(t *testing.T) {
	t.Parallel()
	type change struct{ old, new, want string }
	for name, c := range map[string]struct {
		text, of string
		at       int
		kinds    map[string]int // of its releases
		last     string         // the current kind
		damaged  bool           // the checkpoint is damaged, and then removed
		others   []change
	}{
		"votes": {runOn("table.csv", votes), "", 3, map[string]int{"class-counts": 1, "votes": 8}, "votes", true,
			[]change{
				{"delta: 1e-5", "delta: 1e-6", "started with budget delta 1e-05, now it is 1e-06"},
				{"teachers: 14", "teachers: 20", "manifest"},
				{"share: 0.5}\n  - {site: s1", "share: 0.3}\n  - {site: s1", "manifest"},
				{"labels: 64", "labels: 72", "another spec"},
				{"generator_steps: 3", "generator_steps: 4", "checkpoint"},
			}},
		"gradients of images": {runOn("the-images.idx", gradients), "", 2,
			map[string]int{"class-counts": 1, "gradient-sums": 5}, "gradient-sums", false, []change{
				{"pipeline: gpate", "pipeline: embed", "another spec"},
				{"rounds: 5", "rounds: 6", "another spec"},
				{"generator_steps: 3", "generator_steps: 4", "checkpoint"},
			}},
		"gradients after a lost checkpoint": {runOn("table.csv", gradients), "", 2,
			map[string]int{"class-counts": 1, "gradient-sums": 5}, "gradient-sums", true, nil},
		"steps": {strings.Replace(runOn("table.csv", steps), "rate: 1", "rate: 0.3", 1), "", 4,
			map[string]int{"class-counts": 1, "discriminator": 6}, "discriminator", false, []change{
				{"steps: 6", "steps: 7", "another spec"},
				{"rate: 0.3", "rate: 0.31", "another spec"},
				{"batch: 20", "batch: 21", "checkpoint"},
			}},
		"selections": {runOn("table.csv", votes+"post: [pgb]\npgb: {rounds: 6, candidates: 400}\n"), "selection", 3,
			map[string]int{"class-counts": 1, "votes": 8, "scores": 6}, "scores", false, nil},
		"weights": {runOn("table.csv", votes+"weights: dp-mlp\nweighting: {mlp: {steps: 5}}\n"), "weighting step", 2,
			map[string]int{"class-counts": 1, "votes": 8, "discriminator": 5}, "discriminator", false, nil},
	} {
		if testing.Short() && name != "votes" && name != "weights" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, dir, out := begin(t, c.text)
			interrupted(t, spec, out, round(c.at, c.of))
			before := stored(t, out)
			if n := releases(before)[c.last]; n < c.at || n > c.at+2 {
				t.Fatalf("%d of %s were released", n, c.last)
			}
			for _, other := range c.others {
				changed := strings.Replace(c.text, other.old, other.new, 1)
				_, err := Run(t.Context(), load(t, dir, changed), Options{Out: out})
				if err == nil || !strings.Contains(err.Error(), other.want) || changed == c.text ||
					!strings.Contains(err.Error(), "give another folder with --out") ||
					strings.Contains(err.Error(), "the dataset another name") {
					t.Errorf("%s: error %v; want one about the %s that says to name another folder, not another "+
						"dataset", other.new, err, other.want)
				}
			}
			if after := stored(t, out); len(c.others) > 0 && len(after) != len(before) {
				t.Errorf("the ledger grew from %d to %d entries", len(before), len(after))
			}
			spec = load(t, dir, c.text)
			checkpoint := filepath.Join(out, "state", "student.safetensors")
			if c.damaged {
				raw := testkit.Read(t, checkpoint)
				raw[len(raw)-100] ^= 4
				testkit.Must(t, os.WriteFile(checkpoint, raw, 0o600))
				if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.Is(err, pipeline.ErrDamaged) ||
					!strings.Contains(err.Error(), "remove the file and run again") {
					t.Fatalf("error %v, want that the checkpoint is damaged", err)
				}
				testkit.Must(t, os.Remove(checkpoint))
			}
			var rounds []int
			result, err := Run(t.Context(), spec, Options{Out: out, Watch: func(s run.Status) {
				if s.Of == "" {
					rounds = append(rounds, s.Round)
				}
			}})
			testkit.Must(t, err)
			if first := rounds[0]; !slices.IsSorted(rounds) || c.damaged != (first == 0) ||
				!c.damaged && c.of == "" && name != "steps" && first < c.at {
				t.Errorf("it went on with rounds %v, and was stopped after %d", rounds, c.at)
			}
			check(t, spec, result, out, c.kinds)
			checkBeginsWith(t, out, before)
			if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.Is(err, ErrFinished) {
				t.Errorf("a second run in the folder gave %v, want ErrFinished", err)
			}
			lost := []string{filepath.Join(out, "certificate.json")}
			if c.damaged {
				lost = append(lost, checkpoint)
			}
			publishAgain(t, out, lost, func() error { _, err := Run(t.Context(), spec, Options{Out: out}); return err })
		})
	}
}

// publishAgain removes files of a closed run, whose ledger and rows must be the same after a restart.
func publishAgain(t *testing.T, out string, lost []string, start func() error) {
	t.Helper()
	names := []string{"ledger.jsonl", "synthetic.csv"}
	var before [][]byte
	for _, name := range names {
		before = append(before, testkit.Read(t, filepath.Join(out, name)))
	}
	for _, path := range lost {
		testkit.Must(t, os.Remove(path))
	}
	testkit.Must(t, start())
	for i, name := range names {
		if !bytes.Equal(testkit.Read(t, filepath.Join(out, name)), before[i]) {
			t.Errorf("published again, %s is another", name)
		}
	}
}

// A run stopped while its generator was fitted continues, charges nothing twice and ends with the same model. So does
// one that lost its checkpoint: the release is returned again.
func TestAnInterruptedFitGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		kinds map[string]int
	}{
		"embed": {runOn("table.csv", embedding), map[string]int{"embedding": 1}},
		"gpate": {runOn("table.csv", gradients+features+"warm_start: {embed: 0.4}\n"),
			map[string]int{"embedding": 1, "gradient-sums": 5}},
	} {
		if testing.Short() && name != "embed" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, dir, out := begin(t, c.text)
			interrupted(t, spec, out, func(s run.Status) bool {
				return s.Of == "step" && s.Round == 10 || s.Part == "step 10 of 20"
			})
			before := stored(t, out)
			if len(before) != 4 || before[3].Kind != "embedding" {
				t.Fatalf("a ledger of %d entries", len(before))
			}
			lost := filepath.Join(dir, "lost")
			testkit.Must(t, os.CopyFS(lost, os.DirFS(out)))
			for i := range 2 { // keys are only for their owner, but copies are not
				key := filepath.Join(lost, "state", fmt.Sprint("node-s", i), "partition.key")
				testkit.Must(t, os.Chmod(key, 0o600))
			}
			testkit.Must(t, os.Remove(filepath.Join(lost, "state", "student.safetensors")))
			// Other features belong to another run.
			other := strings.Replace(c.text, "waves: 20", "waves: 21", 1)
			if _, err := Run(t.Context(), load(t, dir, other), Options{Out: out}); err == nil ||
				!strings.Contains(err.Error(), "checkpoint") {
				t.Errorf("other features: %v", err)
			}
			var left [][]byte
			for i, out := range []string{out, lost} {
				spec, first := load(t, dir, c.text), 0
				result, err := Run(t.Context(), spec, Options{Out: out, Watch: func(s run.Status) {
					if s.Of == "step" && first == 0 {
						first = s.Round
					}
				}})
				testkit.Must(t, err)
				check(t, spec, result, out, c.kinds)
				checkBeginsWith(t, out, before)
				// A step that takes longer than a second is shown at its start, too.
				if want := []int{12, 2}[i]; name == "embed" && first != want && first != want-1 {
					t.Errorf("it went on with step %d, want %d", first, want)
				}
				left = append(left, append(testkit.Read(t, filepath.Join(out, "model", "generator.safetensors")),
					testkit.Read(t, filepath.Join(out, "synthetic.csv"))...))
			}
			// Gradients of later rounds have different noise in the two.
			if name == "embed" && !bytes.Equal(left[0], left[1]) {
				t.Error("with the interruption the model is another")
			}
		})
	}
}

// Answers that a checkpoint made unnecessary are dropped, so without it the run ends. It says so, and nothing is
// charged.
func TestADPGANRunNeedsItsCheckpoint(t *testing.T) {
	t.Parallel()
	spec, _, out := begin(t, runOn("table.csv", steps, 1))
	interrupted(t, spec, out, round(3, ""))
	before := stored(t, out)
	testkit.Must(t, os.Remove(filepath.Join(out, "state", "student.safetensors")))
	if _, err := Run(t.Context(), spec, Options{Out: out}); err == nil ||
		!strings.Contains(err.Error(), "was released, and its answer was deleted") ||
		!strings.Contains(err.Error(), "--out") {
		t.Errorf("error %v", err)
	}
	if after := stored(t, out); len(after) != len(before) {
		t.Errorf("the ledger grew from %d to %d entries", len(before), len(after))
	}
}

// With noise set by hand the labels may not fit the budget. The run ends before it exceeds the budget and publishes
// what it learned, even if it is stopped between the refusal and its end.
func TestARunEndsWhenItsBudgetIsUsed(t *testing.T) {
	t.Parallel()
	spec, _, out := begin(t, strings.Replace(runOn("table.csv", votes), "labels: 64,", "labels: 640, noise: 30,", 1))
	first, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	if first.Rounds < 2 || first.Rounds >= 81 || first.EpsilonSpent > 2 || first.EpsilonSpent < 1.6 {
		t.Errorf("%d releases, epsilon %v spent of 2; want fewer than 81 releases and most of the budget",
			first.Rounds, first.EpsilonSpent)
	}
	publishAgain(t, out, []string{filepath.Join(out, "certificate.json")}, func() error {
		second, err := Run(t.Context(), spec, Options{Out: out})
		if err == nil && (second.Rounds != first.Rounds || second.EpsilonSpent != first.EpsilonSpent) {
			t.Errorf("the second start has %d releases and epsilon %v, the first %d and %v",
				second.Rounds, second.EpsilonSpent, first.Rounds, first.EpsilonSpent)
		}
		return err
	})
}

// Nodes that answered under a lost ledger do not answer under a new one. A student that learned from the lost one
// must not get a certificate from the new one, which would state no cost at all.
func TestALostLedgerIsNoticed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	spec, _, out := begin(t, runOn("table.csv", votes))
	_, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	for _, name := range []string{"certificate.json", "state/etcd"} {
		testkit.Must(t, os.RemoveAll(filepath.Join(out, name)))
	}
	// Without its checkpoint the student notices nothing, so the nodes must.
	checkpoint := filepath.Join(out, "state", "student.safetensors")
	testkit.Must(t, os.Rename(checkpoint, checkpoint+".kept"))
	if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.Is(err, node.ErrRefused) ||
		!strings.Contains(err.Error(), "the ledger went back") {
		t.Errorf("error %v, want one that says that the nodes know of another ledger", err)
	}
	testkit.Must(t, os.Rename(checkpoint+".kept", checkpoint))
	marks, err := filepath.Glob(filepath.Join(out, "state", "node-*", "dataset-ledger.head"))
	if err != nil || len(marks) == 0 {
		t.Fatalf("the nodes' marks are %v (%v)", marks, err)
	}
	for _, name := range marks {
		testkit.Must(t, os.Remove(name))
	}
	if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.Is(err, results.ErrOtherLedger) {
		t.Errorf("error %v, want one that says that the ledger is another", err)
	}
	if _, err := os.Stat(filepath.Join(out, "certificate.json")); err == nil {
		t.Error("there is a certificate")
	}
}

// A site's manifest binds it permanently, so none is stored before the data of all sites is known to be right: here
// the second site's differ from its first start.
func TestNoManifestIsKeptBeforeAllSitesAreChecked(t *testing.T) {
	t.Parallel()
	text := runOn("table.csv", votes)
	spec, dir, out := begin(t, text)
	interrupted(t, spec, out, round(1, ""))
	first := filepath.Join(out, "state", "node-s0")
	testkit.Must(t, os.RemoveAll(first))
	other := strings.Replace(text, "s1, file: table.csv, share: 0.5", "s1, file: table.csv, share: 0.4", 1)
	_, err := Run(t.Context(), load(t, dir, other), Options{Out: out})
	if !errors.Is(err, partition.ErrManifestChanged) || !strings.Contains(err.Error(), "site s1") {
		t.Errorf("error %v, want that the manifest of site s1 changed", err)
	}
	if _, err := os.Stat(first); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("site s0 has a state folder again (%v)", err)
	}
}
