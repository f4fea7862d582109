package local

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const peopleSchema = `name: people
label: label
columns:
  - {name: a, kind: continuous, lower: 0, upper: 1}
  - {name: b, kind: continuous, lower: -5, upper: 5, nullable: true}
  - {name: c, kind: categorical, categories: [x, y, z]}
  - {name: label, kind: binary}
`

// dpganTable is a run of six steps at sites with these shares of one file.
func dpganTable(shares ...float64) string {
	var b strings.Builder
	b.WriteString("name: small\nschema: schema.yaml\ndata:\n")
	for i, s := range shares {
		fmt.Fprintf(&b, "  - {site: s%d, file: train.csv, share: %v}\n", i, s)
	}
	b.WriteString(`privacy: {epsilon: 2, delta: 1e-5}
teachers: 14
pipeline: dpgan
warm_start: {embed: 0}
release: {rows: 50}
dpgan:
  steps: 6
  rate: 1
  clip: 1
  quorum: 1
  discriminator: {layers: 1, hidden: 6, loss: logistic, fourier: 0, generated: 40, reuse: 1}
  student: {hidden: 8, batch: 20, steps: 1}
`)
	return b.String()
}

// peopleFolder is a folder with a table of 250 records.
func peopleFolder(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var rows strings.Builder
	rows.WriteString("a,b,c,label\n")
	for range 250 {
		label := rng.IntN(2)
		b := fmt.Sprintf("%.6f", -2+4*float64(label)+rng.Float64())
		if rng.IntN(9) == 0 {
			b = ""
		}
		fmt.Fprintf(&rows, "%.6f,%s,%s,%d\n", (rng.Float64()+float64(label))/2, b, []string{"x", "y", "z"}[rng.IntN(3)],
			label)
	}
	for name, text := range map[string]string{"schema.yaml": peopleSchema, "train.csv": rows.String()} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "example", name), []byte(text), 0o600))
	}
	return dir
}

// checkDPGAN checks ledger and certificate of a run of so many steps against each other,
// and returns both.
func checkDPGAN(t *testing.T, result *results.Result, steps int, rate float64) ([]byte, certificate.Certificate) {
	t.Helper()
	raw := testkit.Read(t, result.Outputs["ledger"])
	if _, err := ledger.Verify(bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw)) // also: each round once, in order
	testkit.Must(t, err)
	total := verified.Runs["small"]
	if result.Pipeline != "dpgan" || result.Rounds != 1+steps || total.Releases != 1+steps || !total.Closed ||
		total.Budget.Filter != privacy.FilterPLD {
		t.Errorf("result %+v, ledger %+v; want %d releases", result, total, 1+steps)
	}
	if n := bytes.Count(raw, []byte(`"planned":1,"kind":"discriminator"`)); n != steps {
		t.Errorf("%d steps in the ledger", n)
	}
	if len(total.Events) != 2 || total.Events[1].Kind != privacy.SubsampledGaussian ||
		total.Events[1].Count != int64(steps) || total.Events[1].Rate != rate {
		t.Fatalf("events %v", total.Events)
	}
	c, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	claim, err := privacy.Account(total.Events, 1e-5)
	testkit.Must(t, err)
	if c.EpsilonSpent != claim.Epsilon || c.Accountant != claim.Accountant || c.EpsilonSpent > 2 ||
		c.EpsilonSpent < 1.98 || result.EpsilonSpent != c.EpsilonSpent {
		t.Errorf("epsilon %v by %s is spent, the events cost %v by %s",
			c.EpsilonSpent, c.Accountant, claim.Epsilon, claim.Accountant)
	}
	want := map[string]float64{"rate": rate, "noise_multiplier": total.Events[1].NoiseMultiplier}
	if diff := cmp.Diff(want, c.Mechanisms[1].Parameters); diff != "" || c.Pipeline != "dpgan" {
		t.Errorf("a certificate of %q: %s", c.Pipeline, diff)
	}
	return raw, c
}

// At rate 1 the first step's sum over all sites is the same to the last integer, however
// many sites the records are at; and so is the noise, and what it costs.
func TestDPGANDoesNotDependOnTheNumberOfSites(t *testing.T) {
	t.Parallel()
	var first []int64
	var noise float64
	for _, shares := range [][]float64{{1}, {0.5, 0.5}, {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.25}} {
		dir := peopleFolder(t)
		var sums [][]int64
		spec := load(t, dir, dpganTable(shares...))
		result, err := Run(t.Context(), spec,
			Options{Out: filepath.Join(dir, "out"), Sums: func(round uint64, counts []int64) {
				if round != uint64(len(sums)) {
					t.Errorf("round %d after %d", round, len(sums))
				}
				sums = append(sums, slices.Clone(counts))
			}})
		testkit.Must(t, err)
		_, c := checkDPGAN(t, result, 6, 1)
		if len(sums) != 7 || c.Votes != "" || result.Rows != 50 {
			t.Fatalf("%d sums, votes %q", len(sums), c.Votes)
		}
		if counts := sums[0]; len(counts) != 2 || counts[0]+counts[1] != 250<<16 {
			t.Errorf("class counts %v of 250 records", counts)
		}
		if first == nil {
			first, noise = sums[1], c.Mechanisms[1].Parameters["noise_multiplier"]
			if slices.Max(first) == 0 && slices.Min(first) == 0 {
				t.Error("all is zero")
			}
		}
		if !slices.Equal(sums[1], first) {
			t.Errorf("%d sites add up to %v, one to %v", len(shares), sums[1], first)
		}
		if got := c.Mechanisms[1].Parameters["noise_multiplier"]; got != noise {
			t.Errorf("%d sites have noise %v, one %v", len(shares), got, noise)
		}
	}
}

// So it is of images, and where a unit is all records of one person.
func TestDPGANOfImagesAndOfPeople(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("more clusters")
	}
	for name, c := range map[string]struct {
		options string
		units   int64
		prepare func(t *testing.T, dir string)
	}{
		"cosines":      {"{layers: 1, hidden: 6, cosines: 3, generated: 40}", 240, nil},
		"convolutions": {"{kind: convolution, layers: 2, hidden: 4, classes: told, generated: 40}", 240, nil},
		"people": {"{layers: 1, hidden: 6, loss: logistic, fourier: 3, generated: 40, reuse: 1}", 50,
			func(t *testing.T, dir string) {
				raw := testkit.Read(t, filepath.Join(dir, "example", "train.csv"))
				var rows strings.Builder
				for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
					who := "who" // the header
					switch {
					case i > 50:
						who = fmt.Sprint("p", i*i%101%50) // some have many records
					case i > 0:
						who = fmt.Sprint("p", i-1)
					}
					fmt.Fprintf(&rows, "%s,%s\n", who, line)
				}
				schema := strings.Replace(peopleSchema, "columns:\n", "columns:\n  - {name: who, role: unit}\n", 1)
				for name, text := range map[string]string{"schema.yaml": schema, "train.csv": rows.String()} {
					testkit.Must(t, os.WriteFile(filepath.Join(dir, "example", name), []byte(text), 0o600))
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			var first []int64
			for _, shares := range [][]float64{{1}, {0.5, 0.5}} {
				dir := peopleFolder(t)
				text := dpganTable(shares...)
				at := strings.Index(text, "  discriminator:")
				text = text[:at] + "  discriminator: " + c.options + "\n  student: {hidden: 8, batch: 20, steps: 1}\n"
				if c.prepare != nil {
					c.prepare(t, dir)
					text = strings.Replace(text, "delta: 1e-5}", "delta: 1e-5, unit: who}", 1)
				} else {
					squares(t, dir, 8)
					text = strings.ReplaceAll(text, "train.csv", "train-images.idx")
				}
				var sums [][]int64
				result, err := Run(t.Context(), load(t, dir, text),
					Options{Out: filepath.Join(dir, "out"), Sums: func(_ uint64, counts []int64) {
						sums = append(sums, slices.Clone(counts))
					}})
				testkit.Must(t, err)
				checkDPGAN(t, result, 6, 1)
				if n := sums[0][0] + sums[0][1]; n > c.units<<16 || n < c.units<<16-250 {
					t.Errorf("class counts %v of %d units", sums[0], c.units)
				}
				if first == nil {
					first = sums[1]
				}
				if !slices.Equal(sums[1], first) || slices.Max(first) == 0 && slices.Min(first) == 0 {
					t.Errorf("%d sites add up to %v, one to %v", len(shares), sums[1], first)
				}
			}
		})
	}
}

// The baseline's nodes add up nothing, for the same price.
func TestDPGANWithoutRecords(t *testing.T) {
	t.Parallel()
	dir := peopleFolder(t)
	spec := load(t, dir, strings.Replace(dpganTable(0.5, 0.5), "rate: 1", "rate: 0.25", 1))
	result, err := Run(t.Context(), spec,
		Options{Out: filepath.Join(dir, "out"), Coin: true, Sums: func(round uint64, counts []int64) {
			if round > 0 && slices.ContainsFunc(counts, func(v int64) bool { return v != 0 }) {
				t.Errorf("round %d adds up to %v", round, counts)
			}
		}})
	testkit.Must(t, err)
	if _, c := checkDPGAN(t, result, 6, 0.25); c.Votes != certificate.VotesCoin {
		t.Errorf("the certificate says votes %q", c.Votes)
	}
}

// An interrupted run goes on from its checkpoint, asks again what came after it, and
// charges no round twice. A finished one is published again without asking.
func TestAnInterruptedDPGANRunGoesOn(t *testing.T) {
	t.Parallel()
	dir := peopleFolder(t)
	text := strings.Replace(dpganTable(0.5, 0.5), "rate: 1", "rate: 0.3", 1)
	spec, out := load(t, dir, text), filepath.Join(dir, "out")
	interrupted(t, spec, out, 4)
	before := stored(t, out)
	released := 0
	for _, e := range before {
		if e.Type == ledger.EntryRelease {
			released++
		}
	}
	if released < 5 {
		t.Fatalf("%d releases after four steps and the class shares", released)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"other steps":   {"steps: 6", "steps: 7", "another spec"},
		"another rate":  {"rate: 0.3", "rate: 0.31", "another spec"},
		"other student": {"batch: 20", "batch: 21", "checkpoint"},
	} {
		if _, err := Run(t.Context(), load(t, dir, strings.Replace(text, c.old, c.new, 1)),
			Options{Out: out}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	spec = load(t, dir, text)
	var rounds []int
	result, err := Run(t.Context(), spec, Options{Out: out, Watch: func(s run.Status) {
		rounds = append(rounds, s.Round)
	}})
	testkit.Must(t, err)
	if rounds[0] < 1 || rounds[len(rounds)-1] != 6 || !slices.IsSorted(rounds) {
		t.Errorf("the second start showed rounds %v", rounds)
	}
	ledger, c := checkDPGAN(t, result, 6, 0.3)
	checkBeginsWith(t, ledger, before)
	rows := testkit.Read(t, result.Outputs["synthetic"])

	testkit.Must(t, os.Remove(filepath.Join(out, "certificate.json")))
	again, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	if got, of := checkDPGAN(t, again, 6, 0.3); !bytes.Equal(got, ledger) ||
		math.Abs(of.EpsilonSpent-c.EpsilonSpent) > 0 {
		t.Error("published again, the ledger is another")
	}
	if got, err := os.ReadFile(again.Outputs["synthetic"]); err != nil || !bytes.Equal(got, rows) {
		t.Errorf("published again, the rows are others (%v)", err)
	}
}

// Answers that a checkpoint made unnecessary are dropped, so that without it the run ends;
// it says so, and nothing is charged.
func TestADPGANRunNeedsItsCheckpoint(t *testing.T) {
	t.Parallel()
	dir := peopleFolder(t)
	spec, out := load(t, dir, dpganTable(1)), filepath.Join(dir, "out")
	interrupted(t, spec, out, 3)
	before := stored(t, out)
	testkit.Must(t, os.Remove(filepath.Join(out, "state", "student.safetensors")))
	if _, err := Run(t.Context(), spec, Options{Out: out}); err == nil ||
		!strings.Contains(err.Error(), "was released and its answer dropped") ||
		!strings.Contains(err.Error(), "--out") {
		t.Errorf("error %v", err)
	}
	if after := stored(t, out); len(after) != len(before) {
		t.Errorf("the ledger grew from %d to %d entries", len(before), len(after))
	}
}

// Mistakes are found before there is anything.
func TestDPGANMistakesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"an option":        {"clip: 1", "clip: -1", "dpgan.clip: -1"},
		"too little noise": {"clip: 1", "clip: 1\n  noise: 1.5", "dpgan.noise: 1.5"},
		"cosines": {"layers: 1", "layers: 1, features: cosines",
			"dpgan.discriminator.features: cosines is for images only"},
		"too large": {"fourier: 0", "fourier: 100000",
			"dpgan.discriminator: a discriminator of more than 131072 weights"},
	} {
		dir := peopleFolder(t)
		out, path := filepath.Join(dir, "out"), filepath.Join(dir, "example", "small.yaml")
		text := strings.Replace(dpganTable(1), c.old, c.new, 1)
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		spec, err := runfile.Load(path)
		if err == nil {
			_, err = Run(t.Context(), spec, Options{Out: out})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("%s: the output folder was made (%v)", name, err)
		}
	}
}
