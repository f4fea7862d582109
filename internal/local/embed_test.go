package local

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// embedOptions are those of a short fit.
const embedOptions = `embed:
  quorum: 1
  features: {waves: 20, bins: 5, most_pairs: 10}
  fit: {steps: 20, batch: 32}
  student: {hidden: 8}
`

// embedTable is a run of embedding matching at sites with these shares of one file.
func embedTable(shares ...float64) string {
	var b strings.Builder
	b.WriteString("name: small\nschema: schema.yaml\ndata:\n")
	for i, s := range shares {
		fmt.Fprintf(&b, "  - {site: s%d, file: train.csv, share: %v}\n", i, s)
	}
	b.WriteString("privacy: {epsilon: 2, delta: 1e-5}\nteachers: 14\npipeline: embed\nrelease: {rows: 50}\n" +
		embedOptions)
	return b.String()
}

// warmTable is a run of a GAN with a start.
func warmTable(pipeline, options string, shares ...float64) string {
	return strings.Replace(embedTable(shares...), "pipeline: embed",
		"pipeline: "+pipeline+"\nwarm_start: {embed: 0.4}\n"+options, 1)
}

// gans are GANs with options of a short run of so many rounds after the start.
var gans = map[string]struct {
	options string
	rounds  int
}{
	"pategan": {"pategan: {labels: 16, queries: 8, quorum: 1, student: {generator_steps: 2, hidden: 8}}", 2},
	"gpate":   {"gpate: {rounds: 2, records: 8, quorum: 1, student: {generator_steps: 2, hidden: 8}}", 2},
	"dpgan": {"dpgan: {steps: 3, rate: 0.3, clip: 1, quorum: 1, " +
		"discriminator: {layers: 1, hidden: 6, loss: logistic, fourier: 0, generated: 40, reuse: 1}, " +
		"student: {hidden: 8, batch: 20, steps: 1}}", 3},
}

// checkEmbedded checks ledger and certificate of a run that began with an embedding, and
// returns the ledger.
func checkEmbedded(t *testing.T, result *results.Result, pipeline string, rounds int) []byte {
	t.Helper()
	raw := testkit.Read(t, result.Outputs["ledger"])
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw)) // also: each round once, in order
	testkit.Must(t, err)
	total := verified.Runs["small"]
	if result.Pipeline != pipeline || result.Rounds != 1+rounds || total.Releases != 1+rounds || !total.Closed {
		t.Errorf("result %+v, ledger %+v; want %d releases", result, total, 1+rounds)
	}
	if bytes.Count(raw, []byte(`"planned":0,"kind":"embedding"`)) != 1 ||
		bytes.Contains(raw, []byte(`"kind":"class-counts"`)) || total.Events[0].Kind != privacy.Gaussian {
		t.Errorf("the ledger is\n%s", raw)
	}
	c, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	claim, err := privacy.Account(total.Events, 1e-5)
	testkit.Must(t, err)
	if c.Pipeline != pipeline || c.EpsilonSpent != claim.Epsilon || c.EpsilonSpent > 2 || c.EpsilonSpent < 1.95 ||
		result.EpsilonSpent != c.EpsilonSpent {
		t.Errorf("epsilon %v is spent, the events cost %v", c.EpsilonSpent, claim.Epsilon)
	}
	if want := total.Events[0].Sigma; c.Mechanisms[0].Parameters["sigma"] != want {
		t.Errorf("the certificate says %+v, the ledger sigma %v", c.Mechanisms[0], want)
	}
	return raw
}

// rewrite replaces files of the example.
func rewrite(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "example", name), []byte(text), 0o600))
	}
}

// One sum is asked of all sites, and it is the same to the last integer however many they
// are: of tables and images, of records and people, with and without a label.
func TestEmbeddingsDoNotDependOnTheNumberOfSites(t *testing.T) {
	t.Parallel()
	table := func(schema string, row func(rng *rand.Rand, i int) string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			var rows strings.Builder
			var header []string
			for line := range strings.Lines(schema) {
				if _, rest, found := strings.Cut(line, "{name: "); found {
					header = append(header, rest[:strings.Index(rest, ",")])
				}
			}
			rows.WriteString(strings.Join(header, ",") + "\n")
			rng := rand.New(rand.NewPCG(2, 2))
			for i := range 120 {
				rows.WriteString(row(rng, i) + "\n")
			}
			rewrite(t, dir, map[string]string{"schema.yaml": "name: p\n" + schema, "train.csv": rows.String()})
		}
	}
	const (
		a = "  - {name: a, kind: continuous, lower: 0, upper: 1}\n"
		c = "  - {name: c, kind: categorical, categories: [x, y]}\n"
	)
	for name, v := range map[string]struct {
		prepare func(t *testing.T, dir string)
		edit    func(text string) string
		// counts are the records of each class, of units of one record.
		counts []float64
	}{
		"a table": {nil, nil, nil},
		"images": {func(t *testing.T, dir string) { squares(t, dir, 8) },
			func(text string) string { return strings.ReplaceAll(text, "train.csv", "train-images.idx") }, nil},
		"no label": {table("columns:\n"+a+c, func(rng *rand.Rand, i int) string {
			return fmt.Sprintf("%.4f,%s", rng.Float64(), []string{"x", "y"}[i%2])
		}), nil, []float64{120}},
		"one column": {table("columns:\n"+a, func(rng *rand.Rand, _ int) string {
			return fmt.Sprintf("%.4f", rng.Float64())
		}), nil, []float64{120}},
		"people": {table("label: c\ncolumns:\n  - {name: who, role: unit}\n"+a+c, func(rng *rand.Rand, i int) string {
			return fmt.Sprintf("p%d,%.4f,%s", i*7%61, rng.Float64(), []string{"x", "y"}[i%2])
		}), func(text string) string {
			return strings.Replace(text, "delta: 1e-5}", "delta: 1e-5, unit: who}", 1)
		}, nil},
		"a class without rows": {table("label: c\ncolumns:\n"+a+
			"  - {name: c, kind: categorical, categories: [x, none, y]}\n", func(rng *rand.Rand, i int) string {
			return fmt.Sprintf("%.4f,%s", rng.Float64(), []string{"x", "y", "y"}[i%3])
		}), nil, []float64{40, 0, 80}},
	} {
		if testing.Short() && name != "a table" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var first []int64
			for _, shares := range [][]float64{{1}, {0.25, 0.25, 0.5}} {
				dir := peopleFolder(t)
				text := embedTable(shares...)
				if v.prepare != nil {
					v.prepare(t, dir)
				}
				if v.edit != nil {
					text = v.edit(text)
				}
				var sums [][]int64
				var last run.Status
				result, err := Run(t.Context(), load(t, dir, text), Options{
					Out:   filepath.Join(dir, "out"),
					Sums:  func(_ uint64, counts []int64) { sums = append(sums, slices.Clone(counts)) },
					Watch: func(s run.Status) { last = s },
				})
				testkit.Must(t, err)
				checkEmbedded(t, result, "embed", 0)
				if len(sums) != 1 || result.Rows != 50 || last.Of != "step" || last.Round != 20 || last.Rounds != 20 ||
					last.EpsilonSpent != result.EpsilonSpent {
					t.Errorf("%d sums, result %+v, at last %+v", len(sums), result, last)
				}
				if first == nil {
					first = sums[0]
				}
				if !slices.Equal(sums[0], first) || slices.Max(first) == 0 {
					t.Errorf("%d sites add up to %v, one to %v", len(shares), sums[0], first)
				}
				// The ratios of the counts are those of the first number of each class.
				each := len(first) / max(1, len(v.counts))
				for class, n := range v.counts {
					if got, want := float64(first[class*each])*v.counts[0],
						float64(first[0])*n; math.Abs(got-want) > 1e-2*math.Abs(float64(first[0]))*v.counts[0] {
						t.Errorf("class %d adds up to %d, the first to %d", class, first[class*each], first[0])
					}
				}
			}
		})
	}
}

// GANs that begin with an embedding pay for it in place of the class counts.
func TestWarmStarts(t *testing.T) {
	t.Parallel()
	for name, c := range gans {
		t.Run(name, func(t *testing.T) {
			dir := peopleFolder(t)
			var lengths []int
			var fitting, rounds bool
			result, err := Run(t.Context(), load(t, dir, warmTable(name, c.options, 0.5, 0.5)), Options{
				Out:  filepath.Join(dir, "out"),
				Sums: func(_ uint64, counts []int64) { lengths = append(lengths, len(counts)) },
				Watch: func(s run.Status) {
					fitting = fitting || s.Part == "step 10 of 20"
					rounds = rounds || s.Round == c.rounds && s.Rounds == c.rounds && s.Of == ""
				},
			})
			testkit.Must(t, err)
			checkEmbedded(t, result, name, c.rounds)
			if len(lengths) == 0 || lengths[0] < 50 || !fitting || !rounds || result.Rows != 50 {
				t.Errorf("sums of %v numbers, shown the fit %v and the rounds %v", lengths, fitting, rounds)
			}
		})
	}
}

// The baseline's nodes add up nothing, for the same price.
func TestEmbeddingsWithoutRecords(t *testing.T) {
	t.Parallel()
	dir := peopleFolder(t)
	result, err := Run(t.Context(), load(t, dir, embedTable(0.5, 0.5)),
		Options{Out: filepath.Join(dir, "out"), Coin: true, Sums: func(_ uint64, counts []int64) {
			if slices.ContainsFunc(counts, func(v int64) bool { return v != 0 }) {
				t.Errorf("it adds up to %v", counts)
			}
		}})
	testkit.Must(t, err)
	checkEmbedded(t, result, "embed", 0)
	if c, err := certificate.Read(result.Outputs["certificate"]); err != nil || c.Votes != certificate.VotesCoin {
		t.Errorf("the certificate says votes %q, %v", c.Votes, err)
	}
}

// A run that was stopped while its generator was fitted goes on, charges nothing twice and
// ends with the model that it would have ended with. So does one that lost its checkpoint:
// the release is handed out again.
func TestAnInterruptedFitGoesOn(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"embed": embedTable(0.5, 0.5), "gpate": warmTable("gpate", gans["gpate"].options, 0.5, 0.5),
	} {
		if testing.Short() && name != "embed" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := peopleFolder(t)
			spec, out, lost := load(t, dir, text), filepath.Join(dir, "out"), filepath.Join(dir, "lost")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := Run(ctx, spec, Options{Out: out, Watch: func(s run.Status) {
				if s.Of == "step" && s.Round == 10 || s.Part == "step 10 of 20" {
					cancel()
				}
			}}); err == nil || ctx.Err() == nil {
				t.Fatalf("the interrupted run ended with %v", err)
			}
			before := stored(t, out)
			if n := len(before); n != 3 || before[2].Kind != "embedding" {
				t.Fatalf("a ledger of %d entries", n)
			}
			testkit.Must(t, os.CopyFS(lost, os.DirFS(out)))
			for i := range 2 { // keys are for their owner alone, and copies are not
				if err := os.Chmod(filepath.Join(lost, "state", fmt.Sprint("node-s", i), "partition.key"),
					0o600); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Must(t, os.Remove(filepath.Join(lost, "state", "student.safetensors")))
			// Other features are another run's.
			if _, err := Run(t.Context(), load(t, dir, strings.Replace(text, "waves: 20", "waves: 21", 1)),
				Options{Out: out}); err == nil || !strings.Contains(err.Error(), "checkpoint") {
				t.Errorf("other features: %v", err)
			}
			var models, rows [][]byte
			for _, out := range []string{out, lost} {
				var steps []int
				result, err := Run(t.Context(), load(t, dir, text), Options{Out: out, Watch: func(s run.Status) {
					if s.Of == "step" {
						steps = append(steps, s.Round)
					}
				}})
				testkit.Must(t, err)
				if name == "embed" {
					checkBeginsWith(t, checkEmbedded(t, result, name, 0), before)
					if from := map[bool]int{true: 2, false: 12}[len(models) > 0]; steps[0] != from {
						t.Errorf("it went on with step %d, want %d", steps[0], from)
					}
				} else {
					checkBeginsWith(t, checkEmbedded(t, result, name, gans[name].rounds), before)
				}
				for path, to := range map[string]*[][]byte{
					filepath.Join(result.Outputs["model"], "generator.safetensors"): &models,
					result.Outputs["synthetic"]:                                     &rows,
				} {
					raw := testkit.Read(t, path)
					*to = append(*to, raw)
				}
			}
			// Votes and gradients of later rounds have noise of their own in the two.
			if name == "embed" && (!bytes.Equal(models[0], models[1]) || !bytes.Equal(rows[0], rows[1])) {
				t.Error("with the interruption the model is another")
			}
		})
	}
}

// Mistakes are found before there is anything.
func TestEmbedMistakesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"an option":        {"quorum: 1", "quorum: 2", "embed.quorum: 2"},
		"too little noise": {"quorum: 1", "noise: 0.5", "embed.noise: 0.5 is too little"},
		"nothing to match": {"bins: 5", "columns: 0, pairs: 0, fourier: 0",
			"embed.features: columns, pairs and fourier are all 0"},
		"too large":      {"waves: 20", "waves: 60000", "embed.features: embedding: part"},
		"a start of all": {"pipeline: embed", "pipeline: gpate\nwarm_start: {embed: 1}", "warm_start.embed: 1"},
	} {
		dir := peopleFolder(t)
		out, path := filepath.Join(dir, "out"), filepath.Join(dir, "example", "small.yaml")
		rewrite(t, dir, map[string]string{"small.yaml": strings.Replace(embedTable(1), c.old, c.new, 1)})
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
