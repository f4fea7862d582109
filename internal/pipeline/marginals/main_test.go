package marginals

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func trainingOf(t testing.TB, schema *partition.Schema) *training {
	t.Helper()
	o := DefaultOptions()
	o.Steps = 80 // enough for small tables
	return newTraining(&o, pipeline.Problem{
		Run: "r", Encoder: encode.New(schema), Classes: max(1, len(schema.Classes())), Teachers: 10, Seed: 1,
	}).(*training)
}

// oracle answers from a table, with noise from the seed.
type oracle struct {
	t      testing.TB
	schema *partition.Schema
	rows   [][]float64
	noise  map[string]float64 // multiplier by kind; none without an entry
	rng    *rand.Rand
}

func (o *oracle) Ask(_ context.Context, _ string, r *conclavev1.Round) (*conclavev1.Release, error) {
	q := new(conclavev1.MarginalsQuestion)
	testkit.Must(o.t, question.Unmarshal(r.Params, q))
	a, err := parse(o.schema, q)
	testkit.Must(o.t, err)
	sum, at := make([]int64, a.entries), make([]int, len(a.columns))
	for _, row := range o.rows {
		a.count(row, 0, 1, at, sum)
	}
	for i := range sum {
		sum[i] += int64(math.Round(o.rng.NormFloat64() * o.noise[r.Kind] * float64(a.bound)))
	}
	return &conclavev1.Release{
		Teachers: 10, LedgerHash: fmt.Sprint("hash", r.Number),
		Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: sum}},
	}, nil
}

func (o *oracle) AskReduced(context.Context, string, *conclavev1.Round) (*conclavev1.Release, error) {
	panic("not asked")
}

func (o *oracle) AskCached(context.Context, string, *conclavev1.Round, *conclavev1.Round) (*conclavev1.Release, error) {
	panic("not asked")
}
func (o *oracle) Teachers() int  { return 10 }
func (o *oracle) Baseline() bool { return false }

const peopleSchema = `columns:
  - {name: hours, kind: integer, lower: 0, upper: 100}
  - {name: gain, kind: continuous, lower: 0, upper: 10000}
  - {name: school, kind: categorical, categories: [low, mid, high, other]}
  - {name: years, kind: integer, lower: 1, upper: 4, nullable: true}
  - {name: label, kind: binary}
label: label
`

// people are rows with a spike at 40 hours, mostly no gain, and years that follow from the school.
func people(n int) (rows [][]float64) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range n {
		school := float64(rng.IntN(4))
		label := 0.0
		if rng.Float64() < 0.2+0.2*school {
			label = 1
		}
		hours, gain, years := 40.0, 0.0, school+1
		if rng.IntN(2) == 0 {
			hours = math.Round(min(100, max(0, 30+15*rng.NormFloat64()+10*label)))
		}
		if rng.IntN(10) == 0 {
			gain = 10000 * rng.Float64()
		}
		if school == 3 {
			years = math.NaN()
		}
		rows = append(rows, []float64{hours, gain, school, years, label})
	}
	return rows
}

// learned is a student of the rows, with the noise of a budget.
func learned(t testing.TB, rows [][]float64, epsilon float64) (*student, *oracle) {
	t.Helper()
	return learnedBy(t, peopleSchema, rows, epsilon)
}

func learnedBy(t testing.TB, text string, rows [][]float64, epsilon float64) (*student, *oracle) {
	t.Helper()
	schema := partitiontest.Schema(t, text)
	train := trainingOf(t, schema)
	budget, err := privacy.NewBudget(epsilon, 1e-5)
	testkit.Must(t, err)
	p := &plan.Plan{Classes: train.Classes}
	testkit.Must(t, train.Plan(p, budget))
	made, err := train.Student(p)
	testkit.Must(t, err)
	s := made.(*student)
	o := &oracle{t, schema, rows, map[string]float64{
		columnsKind: p.Start.Planned.Mechanism.Sigma, pairsKind: p.Training.Mechanism.Sigma,
	}, rand.New(rand.NewPCG(1, 2))}
	testkit.Must(t, s.Learn(t.Context(), o, 2, func() error { return nil }, func(pipeline.Progress) {}))
	return s, o
}

// What an expert checks first: spikes, columns that follow from each other, empty cells.
func TestRowsKeepSpikesAndDependences(t *testing.T) {
	rows := people(20_000)
	s, _ := learned(t, rows, 1)
	m, err := s.Model(nil)
	testkit.Must(t, err)
	table, err := m.Sample(20_000, nil, rand.New(rand.NewPCG(3, 4)))
	testkit.Must(t, err)
	count := func(of func(row []float64) bool) (real, made float64) {
		for i, row := range rows {
			if of(row) {
				real++
			}
			if of(table.Cells(i)) {
				made++
			}
		}
		return real / float64(len(rows)), made / float64(len(rows))
	}
	for name, of := range map[string]func([]float64) bool{
		"40 hours":     func(r []float64) bool { return r[0] == 40 },
		"no gain":      func(r []float64) bool { return r[1] == 0 },
		"empty years":  func(r []float64) bool { return math.IsNaN(r[3]) },
		"label, hours": func(r []float64) bool { return r[4] == 1 && r[0] > 40 },
	} {
		if real, made := count(of); math.Abs(real-made) > 0.02 {
			t.Errorf("%s: %.3f of the rows, %.3f of those made", name, real, made)
		}
	}
	if _, made := count(func(r []float64) bool { return r[2] < 3 && r[3] != r[2]+1 }); made > 0.01 {
		t.Errorf("years do not follow from the school in %.3f of the rows", made)
	}
}

// With more budget the rows are closer: the model is not the limit.
func TestRowsGetNearerWithTheBudget(t *testing.T) {
	rows := people(5000)
	// distance is the mean total variation distance of the pairs of three columns in few cells.
	distance := func(epsilon float64) float64 {
		s, _ := learned(t, rows, epsilon)
		table, err := s.model.Sample(5000, nil, rand.New(rand.NewPCG(1, 5)))
		testkit.Must(t, err)
		cells := map[[3]int]float64{}
		for i, row := range rows {
			made := table.Cells(i)
			cells[[3]int{int(row[0] / 10), int(row[2]), int(row[4])}]++
			cells[[3]int{int(made[0] / 10), int(made[2]), int(made[4])}]--
		}
		sum := 0.0
		for _, d := range cells {
			sum += math.Abs(d) / 10_000
		}
		return sum
	}
	if little, much := distance(0.2), distance(10); much > little/2 {
		t.Errorf("the distance of tables is %.3f at epsilon 0.2 and %.3f at 10", little, much)
	}
}

// A student that resumes from its checkpoint learns the same.
func TestRestore(t *testing.T) {
	t.Run("pairs", func(t *testing.T) { restored(t, peopleSchema, people(2000)) })
	t.Run("wide", func(t *testing.T) { restored(t, wideSchema("kind: binary"), wideRows(1000, 2)) })
}

func restored(t *testing.T, schema string, rows [][]float64) {
	s, o := learnedBy(t, schema, rows, 2)
	path := t.TempDir() + "/student"
	testkit.Must(t, s.Save(path, "me"))
	again, err := s.t.Student(&plan.Plan{Start: &plan.Start{Planned: privacy.Planned{Mechanism: s.first}},
		Training: privacy.Planned{Mechanism: s.second}})
	testkit.Must(t, err)
	if found, err := again.Restore(path, "me"); !found || err != nil {
		t.Fatalf("found %v, %v", found, err)
	}
	o.rows = nil // nothing is asked
	testkit.Must(t, again.Learn(t.Context(), o, 2, func() error { return nil }, func(pipeline.Progress) {}))
	a, b := t.TempDir(), t.TempDir()
	testkit.Must(t, s.model.Save(a))
	testkit.Must(t, again.(*student).model.Save(b))
	for i, file := range pipeline.ModelFiles(a) {
		if string(testkit.Read(t, file)) != string(testkit.Read(t, pipeline.ModelFiles(b)[i])) {
			t.Errorf("%s is another after a restart", file)
		}
	}
	if _, err := again.Restore(path, "another"); err == nil {
		t.Error("the checkpoint of another run was taken")
	}
}

// Tables whose columns follow from each other lose their noise; others keep it.
func TestSparse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	table := func(of func(i, j int) float64) *tree.Measured {
		m := &tree.Measured{Columns: []int{0, 1}, Counts: make([]float64, 100), Variance: 400}
		for i := range 10 {
			for j := range 10 {
				m.Counts[10*i+j] = of(i, j) + 20*rng.NormFloat64()
			}
		}
		return m
	}
	same := table(func(i, j int) float64 {
		if i == j {
			return 1000
		}
		return 0
	})
	low := sparse(same, 10, 10, 10_000)
	for at, empty := range low {
		if empty == (at/10 == at%10) || empty && same.Counts[at] != 0 {
			t.Errorf("cell %d is empty: %v, with a count of %v", at, empty, same.Counts[at])
		}
	}
	if low == nil {
		t.Error("no cell of columns that are the same is empty")
	}
	if low := sparse(table(func(int, int) float64 { return 30 }), 10, 10, 3000); low != nil {
		t.Errorf("cells of independent columns are empty: %v", low)
	}
}

// Parts of a range begin at short decimals, the same numbers as in a file.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		column    string
		n         int
		has, lack []float64
	}{
		{"kind: continuous, lower: 0, upper: 12", 240, []float64{0, 0.05, 0.15, 1.1, 1.15, 11.95}, []float64{0.06}},
		{"kind: continuous, lower: -1.03, upper: 1", 203, []float64{-1.03, -1.02, 0.07, 0.99}, []float64{0.005}},
		{"kind: integer, lower: 0, upper: 99999", 200, []float64{0, 500, 99500}, []float64{100}},
		{"kind: integer, lower: 0, upper: 99999, scale: log", 0, []float64{7, 32, 1100}, []float64{1105, 1110}},
		{"kind: continuous, lower: 1e300, upper: 1.5e300", 251, []float64{1e300, 1.002e300}, nil},
		{"kind: continuous, lower: 1e20, upper: 100000000000000032768", 0, []float64{1e20}, nil}, // has gaps
	} {
		schema := partitiontest.Schema(t, "columns:\n  - {name: a, "+c.column+"}\n")
		from := parts(&schema.Columns[0], 256)
		if len(from) > 256 || c.n > 0 && len(from) != c.n && len(from) != c.n+1 || !slices.IsSorted(from) {
			t.Errorf("%s: %d parts, sorted %v", c.column, len(from), slices.IsSorted(from))
		}
		for _, v := range c.has {
			if !slices.Contains(from, v) {
				t.Errorf("%s: no part begins at %v", c.column, v)
			}
		}
		for _, v := range c.lack {
			if slices.Contains(from, v) {
				t.Errorf("%s: a part begins at %v", c.column, v)
			}
		}
	}
}

// A number that people round is drawn as they wrote it.
func TestHeaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var rows [][]float64
	for range 5000 {
		rows = append(rows, []float64{math.Round(10+2*rng.NormFloat64()) / 10})
	}
	s, _ := learnedBy(t, "columns:\n  - {name: a, kind: continuous, lower: 0, upper: 12}\n", rows, 1)
	table, err := s.model.Sample(5000, nil, rand.New(rand.NewPCG(3, 4)))
	testkit.Must(t, err)
	rounded := 0
	for i := range table.Len() {
		if v := table.Cells(i)[0]; v == math.Round(10*v)/10 {
			rounded++
		}
	}
	if rounded < 4500 {
		t.Errorf("%d of 5000 rows have one decimal, as all had that they were learned from", rounded)
	}
}

// Noise in fine cells is removed, and spikes stay.
func TestSmooth(t *testing.T) {
	schema := partitiontest.Schema(t, "columns:\n  - {name: a, kind: integer, lower: 0, upper: 255}\n")
	rng := rand.New(rand.NewPCG(2, 2))
	c := fineColumn{cells: plain(schema, 0, fineCells(&schema.Columns[0], 256)), variance: 400}
	truth := make([]float64, 256)
	for i := range truth {
		truth[i] = 10
		if i < 64 {
			truth[i] = 40
		}
	}
	truth[200] = 1000
	noisy, sum := 0.0, 0.0
	for _, v := range truth {
		c.records = append(c.records, v+20*rng.NormFloat64())
		sum += c.records[len(c.records)-1]
	}
	for i, v := range c.records {
		noisy += math.Abs(v - truth[i])
	}
	c.smooth()
	left, after := 0.0, 0.0
	for i, v := range c.records {
		left += math.Abs(v - truth[i])
		after += v
	}
	if left > noisy/3 || math.Abs(c.records[200]-1000) > 100 || math.Abs(after-sum) > 1e-6*sum {
		t.Errorf("the distance is %.0f of %.0f, the spike has %.0f, all %.1f of %.1f",
			left, noisy, c.records[200], after, sum)
	}
}

// A difference between halves of the range shows where one between cells is noise.
func TestSmoothKeepsLargeParts(t *testing.T) {
	schema := partitiontest.Schema(t, "columns:\n  - {name: a, kind: integer, lower: 0, upper: 63}\n")
	c := fineColumn{cells: plain(schema, 0, fineCells(&schema.Columns[0], 64)), variance: 1}
	for i := range 64 {
		c.records = append(c.records, 1)
		if i < 32 {
			c.records[i] = 1.6 // the halves differ by 19.2; the deviation of that is 8
		}
	}
	c.records[50] += 2.4 // as many deviations
	c.smooth()
	halves, neighbours := sumOf(c.records[:32])-sumOf(c.records[32:]), c.records[50]-c.records[49]
	if halves < 8 || neighbours > 0.5 {
		t.Errorf("the halves differ by %.1f, want about 17, and two cells by %.1f, want 0", halves, neighbours)
	}
}

// A heap is at a number that people write, and not at the next float.
func TestNoHeapBehindAValue(t *testing.T) {
	schema := partitiontest.Schema(t, "columns:\n  - {name: a, kind: continuous, lower: 0, upper: 6}\n")
	c := fineColumn{cells: plain(schema, 0, fineCells(&schema.Columns[0], 120)), variance: 1}
	of := make([]int, c.n)
	for i := range c.n {
		c.records, of[i] = append(c.records, 1), i
	}
	c.records[1], c.records[40] = 5000, 5000 // the first of them begins after 0
	parted, _ := c.withHeaps(of)
	if added := len(parted.from) - len(c.from); added != 1 || !slices.Contains(parted.from, after(c.of, c.from[40])) {
		t.Errorf("%d heaps", added)
	}
}

// Drawn numbers have six digits of the range, or of themselves on a log scale.
func TestRounded(t *testing.T) {
	for columns, want := range map[string]map[float64]float64{
		"lower: 0, upper: 6":               {1.23456789: 1.23457},
		"lower: -50, upper: 50":            {-1.23456789: -1.235},
		"lower: 0, upper: 1e9":             {123456.789: 123457},
		"lower: 0, upper: 1e6, scale: log": {0.123456789: 0.12346, 92.20745544707245: 92.2075, 123456.789: 123457},
	} {
		schema := partitiontest.Schema(t, "columns: [{name: a, kind: continuous, "+columns+"}]")
		c := drawn{cells: plain(schema, 0, []float64{0})}
		for v, rounded := range want {
			if got := c.rounded(v); got != rounded {
				t.Errorf("%s: %v becomes %v, want %v", columns, v, got, rounded)
			}
		}
	}
}
