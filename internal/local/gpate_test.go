package local

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/idx"
)

const gpateTable = `name: small
schema: schema.yaml
data:
  - {site: north, file: train.csv.gz, share: 0.5}
  - {site: south, file: train.csv.gz, share: 0.5}
privacy: {epsilon: 1, delta: 1e-5}
teachers: 30
pipeline: gpate
release: {rows: 100}
gpate: {rounds: 5, records: 8, teacher: {steps: 2, training: 16}, student: {generator_steps: 3, follow: move}}
`

const squareSchema = `name: squares
label: label
format: idx
image: {height: 8, width: 8, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 64}
  - {name: label, kind: categorical, categories: [left, upper]}
`

const gpateImages = `name: small
schema: schema.yaml
data:
  - {site: north, file: train-images.idx, share: 0.5}
  - {site: south, file: train-images.idx, share: 0.5}
privacy: {epsilon: 10, delta: 1e-5}
teachers: 30
pipeline: gpate
release: {rows: 40}
gpate: {rounds: 5, records: 8, teacher: {steps: 2, training: 16, hidden: 8, cosines: 3},
  student: {generator_steps: 3, hidden: 16}}
`

// squares writes images of a side whose bright half is their class.
func squares(t *testing.T, dir string, side int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	x := &idx.Images{Shape: partition.Image{Height: side, Width: side, Channels: 1}}
	for i := range 240 {
		for p := range side * side {
			v := rng.IntN(80)
			if i%2 == 0 && p%side < side/2 || i%2 == 1 && p/side < side/2 {
				v += 170
			}
			x.Pixels = append(x.Pixels, byte(v))
		}
		x.Classes = append(x.Classes, i%2)
	}
	images, labels, err := idx.Encode(x, false)
	testkit.Must(t, err)
	for name, raw := range map[string][]byte{"schema.yaml": []byte(squareSchema), "train-images.idx": images,
		"train-labels.idx": labels} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "example", name), raw, 0o600))
	}
}

// checkGPATE checks ledger and certificate of a run of 5 rounds against each other, and
// returns the ledger.
func checkGPATE(t *testing.T, result *results.Result, epsilon float64, each int64, kind privacy.Kind) []byte {
	t.Helper()
	if kind == privacy.Gaussian { // a sum is one query, whatever its length
		raw, err := os.ReadFile(result.Outputs["ledger"])
		if n := bytes.Count(raw, fmt.Appendf(nil, `"entries":%d,`, each)); err != nil || n != 5 {
			t.Errorf("%d releases of %d numbers, want 5 (%v)", n, each, err)
		}
		each = 1
	}
	if result.Pipeline != "gpate" || result.Rounds != 6 || int64(result.Queries) != 1+5*each ||
		result.EpsilonSpent > epsilon || result.EpsilonSpent < 0.9*epsilon {
		t.Errorf("result %+v: want 6 releases of %d queries, and most of epsilon %v", result, 1+5*each, epsilon)
	}
	raw := testkit.Read(t, result.Outputs["ledger"])
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw))
	testkit.Must(t, err)
	if got := verified.Runs["small"]; got.Releases != 6 || got.Queries != 1+5*each || !got.Closed ||
		got.Price.Epsilon > epsilon {
		t.Errorf("the ledger has %+v", got)
	}
	if n := bytes.Count(raw, []byte(`"planned":1,"kind":"gradient-`)); n != 5 ||
		bytes.Count(raw, []byte(`"events":[{"kind":"`+string(kind)+`"`)) != 5 {
		t.Errorf("%d releases of gradients in %s", n, raw)
	}
	certificate, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	if certificate.Pipeline != "gpate" {
		t.Errorf("a certificate of %q", certificate.Pipeline)
	}
	if err := certificate.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	return raw
}

// Tables and images, sums and votes, from nodes to a certificate.
func TestGPATEFromNodesToACertificate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string
		epsilon float64
		each    int64 // queries of a round; 0: as many as teachers see of a record
		kind    privacy.Kind
		long    bool
	}{
		"sums on a table": {gpateTable, 1, 0, privacy.Gaussian, true},
		"votes on a table": {strings.Replace(gpateTable, "rounds: 5",
			"answers: histogram, directions: 3, mechanism: gnmax, rounds: 5", 1), 1, 24, privacy.GNMax, false},
		"sums on images": {gpateImages, 10, 72, privacy.Gaussian, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skip("another cluster")
			}
			dir := folder(t)
			if strings.Contains(c.text, "idx") {
				squares(t, dir, 8)
			}
			spec := load(t, dir, c.text)
			if c.each == 0 {
				schema, err := spec.LoadSchema()
				testkit.Must(t, err)
				c.each = 8 * int64(encode.New(schema).Width())
			}
			result, err := Run(t.Context(), spec, Options{Out: filepath.Join(dir, "out")})
			testkit.Must(t, err)
			checkGPATE(t, result, c.epsilon, c.each, c.kind)
			if c.kind == privacy.Gaussian && c.epsilon == 10 {
				x := result.Outputs["images"]
				if raw, err := os.ReadFile(x); err != nil || len(raw) == 0 {
					t.Errorf("no images at %q (%v)", x, err)
				}
			}
		})
	}
}

// An interrupted run goes on after its checkpoint, or without one from what was
// released, and charges no round twice.
func TestAnInterruptedGPATERunGoesOn(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		if lost && testing.Short() {
			continue
		}
		dir := folder(t)
		squares(t, dir, 8)
		spec, out := load(t, dir, gpateImages), filepath.Join(dir, "out")
		interrupted(t, spec, out, 2)
		before := stored(t, out)
		if lost {
			testkit.Must(t, os.Remove(filepath.Join(out, "state", "student.safetensors")))
		}
		var rounds []int
		result, err := Run(t.Context(), spec, Options{Out: out, Watch: func(s run.Status) {
			rounds = append(rounds, s.Round)
		}})
		testkit.Must(t, err)
		if !slices.IsSorted(rounds) || rounds[len(rounds)-1] != 5 || !lost && rounds[0] < 2 || lost && rounds[0] != 0 {
			t.Errorf("checkpoint lost %v: the second start showed rounds %v", lost, rounds)
		}
		checkBeginsWith(t, checkGPATE(t, result, 10, 72, privacy.Gaussian), before)
	}
}

// Another pipeline does not go on from a checkpoint or a run of this one.
func TestAnotherPipelineInTheFolderIsRefused(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("another cluster")
	}
	dir := folder(t)
	out := filepath.Join(dir, "out")
	interrupted(t, load(t, dir, gpateTable), out, 1)
	for name, c := range map[string]struct{ old, new, want string }{
		"pategan":      {"pipeline: gpate", "pipeline: pategan", "another spec"},
		"other rounds": {"rounds: 5", "rounds: 6", "another spec"},
		"other steps":  {"generator_steps: 3", "generator_steps: 4", "checkpoint"},
	} {
		_, err := Run(t.Context(), load(t, dir, strings.Replace(gpateTable, c.old, c.new, 1)), Options{Out: out})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// Mistakes about images are found before there is anything.
func TestGPATEMistakesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		side     int
		old, new string
		want     string
	}{
		"images of another size": {6, "", "", "train-images.idx"},
		"k above the dimension": {8, "rounds: 5", "answers: winner, directions: 10",
			"gpate.directions: 10 are more than the 9 features"},
		"more cosines than pixels": {8, "cosines: 3", "cosines: 9", "gpate.teacher.cosines: 9"},
		"a generator for others": {8, "hidden: 16}", "hidden: 16, generator: convolution, layers: 4}",
			"gpate.student: a generator of kind convolution"},
	} {
		dir := folder(t)
		squares(t, dir, c.side)
		out := filepath.Join(dir, "out")
		spec := load(t, dir, strings.Replace(gpateImages, c.old, c.new, 1))
		if _, err := Run(t.Context(), spec, Options{Out: out}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the output folder was made (%v)", name, err)
		}
	}
}
