package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

// Configuration of small runs of the pipelines; their students learn little, but quickly.
const (
	votes = "pipeline: pategan\nwarm_start: {embed: 0}\n" +
		"pategan: {labels: 64, queries: 8, student: {generator_steps: 3, hidden: 8, step: 0.01}}\n"
	gradients = "pipeline: gpate\ngpate: {rounds: 5, records: 8, quorum: 1, teacher: {steps: 2, training: 16}, " +
		"student: {generator_steps: 3, hidden: 8}}\n"
	steps = "pipeline: dpgan\nwarm_start: {embed: 0}\ndpgan: {steps: 6, rate: 1, clip: 1, quorum: 1, discriminator: " +
		"{layers: 1, hidden: 6, loss: logistic, fourier: 0, generated: 40, reuse: 1}, " +
		"student: {hidden: 8, batch: 20, steps: 1}}\n"
	features  = "embed: {quorum: 1, features: {waves: 20, bins: 5, most_pairs: 10}, fit: {steps: 20, batch: 32}}\n"
	embedding = "pipeline: embed\n" + features
)

// runOn is a run.yaml with these lines, whose sites have these shares of a file. Without shares two sites have half
// of it each.
func runOn(file, lines string, shares ...float64) string {
	var b strings.Builder
	b.WriteString("name: small\nschema: schema.yaml\nteachers: 14\nrelease: {rows: 50}\ndata:\n")
	if shares == nil {
		shares = []float64{0.5, 0.5}
	}
	for i, s := range shares {
		fmt.Fprintf(&b, "  - {site: s%d, file: %s, share: %v}\n", i, file, s)
	}
	if !strings.Contains(lines, "privacy:") {
		b.WriteString("privacy: {epsilon: 2, delta: 1e-5}\n")
	}
	return b.String() + lines
}

const peopleSchema = `name: people
label: label
columns:
  - {name: a, kind: continuous, lower: 0, upper: 1}
  - {name: b, kind: continuous, lower: -5, upper: 5, nullable: true}
  - {name: c, kind: categorical, categories: [x, y, z]}
  - {name: label, kind: binary}
`

// people writes 250 records to table.csv in a folder. If who names the unit of each record, it is a column.
func people(t *testing.T, dir string, who func(i int) string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	schema := peopleSchema
	var rows strings.Builder
	rows.WriteString("a,b,c,label")
	if who != nil {
		schema = strings.Replace(schema, "columns:\n", "columns:\n  - {name: who, role: unit}\n", 1)
		rows.WriteString(",who")
	}
	for i := range 250 {
		label := rng.IntN(2)
		b := fmt.Sprintf("%.6f", -2+4*float64(label)+rng.Float64())
		if rng.IntN(9) == 0 {
			b = ""
		}
		fmt.Fprintf(&rows, "\n%.6f,%s,%s,%d", (rng.Float64()+float64(label))/2, b, []string{"x", "y", "z"}[rng.IntN(3)],
			label)
		if who != nil {
			rows.WriteString("," + who(i))
		}
	}
	files(t, dir, map[string]string{"schema.yaml": schema, "table.csv": rows.String() + "\n"})
}

const squareSchema = `name: squares
label: label
format: idx
image: {height: 8, width: 8, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 64}
  - {name: label, kind: categorical, categories: [left, upper]}
`

// squares writes 240 square images, whose bright half shows their class, to the-images.idx in a folder.
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
	files(t, dir, map[string]string{"schema.yaml": squareSchema, "the-images.idx": string(images),
		"the-labels.idx": string(labels)})
}

func files(t *testing.T, dir string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// folder makes a folder with a short path, because the embedded etcd listens on a Unix socket below it. It has people
// and squares, and the latter's schema if requested.
func folder(t *testing.T, images bool) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loc")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	if images {
		squares(t, dir, 8)
	} else {
		people(t, dir, nil)
	}
	return dir
}

// begin loads a run.yaml in a new folder with its kind of data, and returns the folder of its results.
func begin(t *testing.T, text string) (spec *runfile.Spec, dir, out string) {
	t.Helper()
	dir = folder(t, strings.Contains(text, ".idx"))
	return load(t, dir, text), dir, filepath.Join(dir, "out")
}

func load(t *testing.T, dir, text string) *runfile.Spec {
	t.Helper()
	path := filepath.Join(dir, "small.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	spec, err := runfile.Load(path)
	testkit.Must(t, err)
	return spec
}

// interrupted runs until at returns true for a status, and stops there.
func interrupted(t *testing.T, spec *runfile.Spec, out string, at func(run.Status) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Within(t))
	defer cancel()
	_, err := Run(ctx, spec, Options{Out: out, Watch: func(s run.Status) {
		if at(s) {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted run ended with %v, want context.Canceled", err)
	}
	if _, err := os.Stat(filepath.Join(out, "certificate.json")); err == nil {
		t.Fatal("an interrupted run left a certificate")
	}
}

// round reports whether a status has reached round n of a stage or, for "", of a training after class counts.
func round(n int, of string) func(run.Status) bool {
	if of == "" {
		n++
	}
	return func(s run.Status) bool { return s.Round == n && s.Of == of }
}

// stored opens the etcd of a stopped run and returns its ledger.
func stored(t *testing.T, out string) []ledger.Entry {
	t.Helper()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: filepath.Join(out, "state", "etcd")})
	testkit.Must(t, err)
	defer etcd.Close()
	store, err := coordinator.Open(t.Context(), coordinator.Config{Endpoints: etcd.Endpoints()})
	testkit.Must(t, err)
	defer store.Close()
	entries, err := store.Ledger(t.Context(), dataset)
	testkit.Must(t, err)
	return entries
}

// releases counts the releases in a ledger by kind.
func releases(entries []ledger.Entry) map[string]int {
	kinds := map[string]int{}
	for _, e := range entries {
		if e.Type == ledger.EntryRelease {
			kinds[e.Kind]++
		}
	}
	return kinds
}

// verified reads certificate and ledger of a folder and checks one against the other.
func verified(t *testing.T, out string) (certificate.Certificate, ledger.Verification) {
	t.Helper()
	raw := testkit.Read(t, filepath.Join(out, "ledger.jsonl"))
	c, err := certificate.Read(filepath.Join(out, "certificate.json"))
	testkit.Must(t, err)
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	v, err := ledger.VerifyStrict(bytes.NewReader(raw)) // also: each round once, in order
	testkit.Must(t, err)
	return c, v
}

// check checks that a run's files agree with each other and with its result: the releases are as planned, within the
// budget, and the certificate states their price.
func check(t *testing.T, spec *runfile.Spec, result *results.Result, out string,
	kinds map[string]int) certificate.Certificate {
	t.Helper()
	c, v := verified(t, out)
	total, got := v.Runs[spec.Name], map[string]int{}
	for _, line := range results.LedgerLines(testkit.Read(t, filepath.Join(out, "ledger.jsonl"))) {
		for _, e := range results.ReleasesOf([][]byte{line}, spec.Name) {
			got[e.Kind]++
		}
	}
	testkit.Same(t, "releases", kinds, got)
	if !total.Closed || result.Rounds != total.Releases || result.Queries != total.Queries || result.Rows != 50 ||
		result.Pipeline != spec.Pipeline || c.Pipeline != spec.Pipeline || c.Rows != 50 {
		t.Errorf("result %+v, ledger %+v, certificate %+v", result, total, c)
	}
	claim, err := privacy.Account(total.Events, spec.Privacy.Delta)
	testkit.Must(t, err)
	epsilon, least := spec.Privacy.Epsilon, 0.5
	if len(spec.Post) == 0 && spec.Weights == "none" {
		least = map[string]float64{"dpgan": 0.99, "embed": 0.975, "gpate": 0.9}[spec.Pipeline]
	}
	if c.EpsilonSpent != claim.Epsilon || c.Accountant != claim.Accountant || result.EpsilonSpent != claim.Epsilon ||
		claim.Epsilon > epsilon || claim.Epsilon < cmp.Or(least, 0.5)*epsilon {
		t.Errorf("the events cost %v by %s, the certificate says %v by %s", claim.Epsilon, claim.Accountant,
			c.EpsilonSpent, c.Accountant)
	}
	for i, e := range total.Events {
		want := map[string]float64{}
		switch e.Kind {
		case privacy.Gaussian:
			want["sigma"], want["sensitivity"] = e.Sigma, e.Sensitivity
		case privacy.SubsampledGaussian:
			want["rate"], want["noise_multiplier"] = e.Rate, e.NoiseMultiplier
		default:
			continue
		}
		testkit.Same(t, "mechanism of the certificate", want, c.Mechanisms[i].Parameters)
	}
	return c
}

// checkBeginsWith checks that a ledger's entries from before an interruption are unchanged.
func checkBeginsWith(t *testing.T, out string, before []ledger.Entry) {
	t.Helper()
	raw := testkit.Read(t, filepath.Join(out, "ledger.jsonl"))
	for i, line := range slices.Collect(bytes.Lines(raw))[:len(before)] {
		if want, err := before[i].Canonical(); err != nil || !bytes.Equal(bytes.TrimSpace(line), want) {
			t.Errorf("entry %d changed after the interruption (%v)", i+1, err)
		}
	}
}
