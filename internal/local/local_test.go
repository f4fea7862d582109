package local

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallOptions are those of a student that learns little, and soon.
const smallOptions = "pategan: {labels: 64, queries: 8, student: {generator_steps: 3, hidden: 8, step: 0.01}}"

const smallRun = `name: small
schema: schema.yaml
data:
  - {site: north, file: train.csv.gz, share: 0.5}
  - {site: south, file: train.csv.gz, share: 0.5}
privacy: {epsilon: 1, delta: 1e-5}
teachers: 30
pipeline: pategan
warm_start: {embed: 0}
release: {rows: 100}
` + smallOptions + "\n"

// fewRecords are the first 1,000 of the example's.
var fewRecords = sync.OnceValues(func() ([]byte, error) {
	raw, err := flchain.Files.ReadFile("train.csv.gz")
	if err != nil {
		return nil, err
	}
	unzip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var few bytes.Buffer
	zip, lines := gzip.NewWriter(&few), bufio.NewScanner(unzip)
	for n := 0; n <= 1000 && lines.Scan(); n++ { // a header first
		if _, err := fmt.Fprintln(zip, lines.Text()); err != nil {
			return nil, err
		}
	}
	err = errors.Join(lines.Err(), zip.Close())
	return few.Bytes(), err
})

// folder makes a folder with a short path, because the embedded etcd listens on
// a Unix socket below it, and the example with few records in it.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loc")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	testkit.Must(t, os.CopyFS(filepath.Join(dir, "example"), flchain.Files))
	few, err := fewRecords()
	testkit.Must(t, err)
	train := filepath.Join(dir, "example", "train.csv.gz")
	testkit.Must(t, os.Chmod(train, 0o600))
	testkit.Must(t, os.WriteFile(train, few, 0o600))
	return dir
}

func load(t *testing.T, dir, text string) *runfile.Spec {
	t.Helper()
	path := filepath.Join(dir, "example", "small.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	spec, err := runfile.Load(path)
	testkit.Must(t, err)
	return spec
}

// interrupted runs until a round of votes is done and stops there.
func interrupted(t *testing.T, spec *runfile.Spec, out string, at int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Run(ctx, spec, Options{Out: out, Watch: func(s run.Status) {
		if s.Round == at {
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

func TestAnInterruptedRunGoesOnAndChargesNoRoundTwice(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	spec, out := load(t, dir, smallRun), filepath.Join(dir, "out")
	interrupted(t, spec, out, 3)
	before := stored(t, out)
	releases := 0
	for _, e := range before {
		if e.Type == ledger.EntryRelease {
			releases++
		}
	}
	if releases < 4 {
		t.Fatalf("%d releases after three rounds of votes and the class shares", releases)
	}

	var rounds []int
	result, err := Run(t.Context(), spec, Options{Out: out, Watch: func(s run.Status) {
		rounds = append(rounds, s.Round)
	}})
	testkit.Must(t, err)
	if rounds[0] < 3 || rounds[len(rounds)-1] != 8 || !slices.IsSorted(rounds) {
		t.Errorf("the second start showed rounds %v; it must go on after round 3 and end with 8", rounds)
	}
	if result.Rounds != 9 || result.Queries != 65 || result.Rows != 100 || result.EpsilonSpent > 1 {
		t.Errorf("result %+v: want 9 releases, 65 queries, 100 rows, epsilon at most 1", result)
	}
	raw := testkit.Read(t, result.Outputs["ledger"])
	verified, err := ledger.Verify(bytes.NewReader(raw)) // also: no round twice
	testkit.Must(t, err)
	if got := verified.Runs["small"]; got.Releases != 9 || !got.Closed {
		t.Errorf("the ledger has %d releases, closed %v; want 9, true", got.Releases, got.Closed)
	}
	certificate, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	if err := certificate.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	checkBeginsWith(t, raw, before)
}

// A run that was stopped after its end, before its files were written, asks
// nothing more. One whose checkpoint is lost learns from the stored answers.
func TestAClosedRunIsPublishedAgainFromItsReleases(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	spec, out := load(t, dir, smallRun), filepath.Join(dir, "out")
	first, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	ledger := testkit.Read(t, first.Outputs["ledger"])
	rows := testkit.Read(t, first.Outputs["synthetic"])
	if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.Is(err, ErrFinished) {
		t.Fatalf("a second run in the folder gave %v, want ErrFinished", err)
	}
	for _, lost := range [][]string{{"certificate.json"}, {"certificate.json", "state/student.safetensors"}} {
		for _, name := range lost {
			testkit.Must(t, os.Remove(filepath.Join(out, filepath.FromSlash(name))))
		}
		again, err := Run(t.Context(), spec, Options{Out: out})
		if err != nil {
			t.Fatalf("without %v: %v", lost, err)
		}
		got := testkit.Read(t, again.Outputs["ledger"])
		if !bytes.Equal(got, ledger) {
			t.Errorf("without %v: the ledger changed", lost)
		}
		if got, err = os.ReadFile(again.Outputs["synthetic"]); err != nil || !bytes.Equal(got, rows) {
			t.Errorf("without %v: the synthetic rows changed (%v)", lost, err)
		}
	}
}

// With noise set by hand the labels may not fit the budget. The run ends before
// the budget is passed and publishes what it learned, also when it is stopped
// between the refusal and its end.
func TestARunEndsWhenItsBudgetIsUsed(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	text := strings.Replace(smallRun, "labels: 64,", "labels: 640, noise: 30,", 1)
	spec, out := load(t, dir, text), filepath.Join(dir, "out")
	first, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	if first.Rounds < 2 || first.Rounds >= 81 || first.EpsilonSpent > 1 || first.EpsilonSpent < 0.8 {
		t.Errorf("%d releases, epsilon %v spent of 1; want fewer than 81 releases and most of the budget",
			first.Rounds, first.EpsilonSpent)
	}
	for _, name := range []string{"certificate.json", "synthetic.csv"} {
		testkit.Must(t, os.Remove(filepath.Join(out, name)))
	}
	second, err := Run(t.Context(), spec, Options{Out: out})
	if err != nil {
		t.Fatalf("the run cannot be published after its end: %v", err)
	}
	if second.Rounds != first.Rounds || second.EpsilonSpent != first.EpsilonSpent {
		t.Errorf("the second start has %d releases and epsilon %v, the first %d and %v",
			second.Rounds, second.EpsilonSpent, first.Rounds, first.EpsilonSpent)
	}
}

// Nodes that answered under a ledger which is gone do not answer under a new one, and a
// student that learned from it must not get a certificate from a new one, which would name
// no cost at all.
func TestALostLedgerIsNoticed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	dir := folder(t)
	spec, out := load(t, dir, smallRun), filepath.Join(dir, "out")
	if _, err := Run(t.Context(), spec, Options{Out: out}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"certificate.json", "state/etcd"} {
		testkit.Must(t, os.RemoveAll(filepath.Join(out, name)))
	}
	if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.Is(err, node.ErrRefused) ||
		!strings.Contains(err.Error(), "the ledger went back") {
		t.Errorf("error %v, want one that says that the nodes know of another ledger", err)
	}
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

func TestAnotherRunInTheFolderOfAnInterruptedOneIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	out := filepath.Join(dir, "out")
	interrupted(t, load(t, dir, smallRun), out, 1)
	before := stored(t, out)
	for name, c := range map[string]struct{ old, new, want string }{
		"other budget":   {"epsilon: 1", "epsilon: 2", "begun with budget epsilon 1, now it is 2"},
		"other teachers": {"teachers: 30", "teachers: 40", "manifest"},
		"other data":     {"share: 0.5}\n  - {site: s", "share: 0.3}\n  - {site: s", "manifest"},
		"other labels":   {"labels: 64", "labels: 72", "another spec"},
		"other student":  {"generator_steps: 3", "generator_steps: 4", "checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(smallRun, c.old, c.new, 1)
			if changed == smallRun {
				t.Fatalf("%q is not in the run", c.old)
			}
			_, err := Run(t.Context(), load(t, dir, changed), Options{Out: out})
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "name another folder with --out") ||
				strings.Contains(err.Error(), "the dataset another name") {
				t.Errorf("error %v; want one about the %s that says to name another folder, not another dataset",
					err, c.want)
			}
		})
	}
	if after := stored(t, out); len(after) != len(before) {
		t.Errorf("the ledger grew from %d to %d entries", len(before), len(after))
	}
}

func TestNodesGetTeachersByPublicShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		teachers int
		shares   []float64
		want     []int
	}{
		{30, []float64{0.5, 0.5}, []int{15, 15}},
		{31, []float64{0.5, 0.5}, []int{16, 15}},
		{10, []float64{0.6, 0.2, 0.2}, []int{6, 2, 2}},
		{3, []float64{1, 1, 1}, []int{1, 1, 1}},
		{7, []float64{1}, []int{7}},
	} {
		schema, err := partition.ParseSchema([]byte("name: x\ncolumns: [{name: a, kind: binary}]\n"))
		testkit.Must(t, err)
		spec := &runfile.Spec{Teachers: c.teachers, Schema: "schema.yaml", Privacy: runfile.Privacy{Unit: "record"}}
		for i, share := range c.shares {
			spec.Data = append(spec.Data,
				runfile.Data{Site: string(rune('a' + i)), File: string(rune('a'+i)) + ".csv", Share: share})
		}
		configs, err := nodeConfigs(spec, schema, "state")
		if err != nil {
			t.Errorf("%d teachers for %v: %v", c.teachers, c.shares, err)
			continue
		}
		var got []int
		for _, n := range configs {
			got = append(got, n.Teachers)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d teachers for %v: got %v, want %v", c.teachers, c.shares, got, c.want)
		}
	}
}

func TestMistakesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	out := filepath.Join(dir, "out")
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"too many teachers": {strings.Replace(smallRun, "teachers: 30", "teachers: 9000", 1),
			partition.ErrTooManyPartitions},
		"no such file": {strings.Replace(smallRun, "train.csv.gz", "none.csv", 1), os.ErrNotExist},
		"second site only": {strings.Replace(smallRun, "{site: south, file: train.csv.gz",
			"{site: south, file: none.csv", 1), os.ErrNotExist},
		"no such test file": {smallRun + "evaluate: {test: none.csv}\n", os.ErrNotExist},
	} {
		if _, err := Run(t.Context(), load(t, dir, c.text), Options{Out: out}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the output folder was made (%v)", name, err)
		}
	}
}

// A site's manifest binds it for good, so none is kept before the data of all
// sites is known to be right: here the second site's differ from its first start.
func TestNoManifestIsKeptBeforeAllSitesAreChecked(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	out := filepath.Join(dir, "out")
	interrupted(t, load(t, dir, smallRun), out, 1)
	north := filepath.Join(out, "state", "node-north")
	testkit.Must(t, os.RemoveAll(north))
	last := strings.LastIndex(smallRun, "share: 0.5")
	other := smallRun[:last] + "share: 0.4" + smallRun[last+len("share: 0.5"):]
	_, err := Run(t.Context(), load(t, dir, other), Options{Out: out})
	if !errors.Is(err, partition.ErrManifestChanged) || !strings.Contains(err.Error(), "site south") {
		t.Errorf("error %v, want that the manifest of site south changed", err)
	}
	if _, err := os.Stat(north); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("site north has a state folder again (%v)", err)
	}
}

func TestTheStateIsSecretAndTheResultsAreNot(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	out, state := filepath.Join(dir, "out"), filepath.Join(dir, "out", "state")
	testkit.Must(t, makeFolders(out, state))
	for path, want := range map[string]os.FileMode{out: 0o755, state: 0o700} {
		info, err := os.Stat(path)
		testkit.Must(t, err)
		if got := info.Mode().Perm(); got&^want != 0 {
			t.Errorf("%s has mode %o, want at most %o", path, got, want)
		}
	}
}
