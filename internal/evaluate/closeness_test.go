package evaluate

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

func TestCompareClosenessByHand(t *testing.T) {
	s := schemaOf(t, pairSchema) // x 0 to 100 or empty, y -10 to 10, c a or b or empty, d 0 or 1
	empty := math.NaN()
	train := tableOf(t, s, []float64{10, 0, 0, 0}, []float64{empty, 5, empty, 1})
	test := tableOf(t, s, []float64{90, 10, 1, 1}, []float64{50, 0, 0, 0})
	synthetic := tableOf(t, s,
		[]float64{10, 0, 0, 0},    // a copy of train; 0.4 from test
		[]float64{empty, 4, 1, 1}, // 0.05 + 1 from train; 1 + 0.3 from test
		[]float64{30, 0, 0, 0},    // 0.2 from both
		[]float64{90, 10, 1, 1},   // a copy of test; 0.8 + 0.5 + 1 + 1, or 1 + 0.25 + 1 from train
		[]float64{90, 9.5, 1, 0})  // 0.025 and 1 from test
	c, notes, err := CompareCloseness(train, test, synthetic, nil, ClosenessOptions{})
	if err != nil || len(notes) != 0 {
		t.Fatal(notes, err)
	}
	for _, v := range []struct {
		what      string
		got, want float64
	}{
		{"copies of train", c.CopiesTrain, 0.2},
		{"copies of test", c.CopiesTest, 0.2},
		{"median distance to train", c.DistanceTrain, 1.05 / 4},
		{"median distance to test", c.DistanceTest, 0.4 / 4},
		{"closer to train", c.CloserToTrain, (1 + 1 + 0.5) / 5},
		// Train rows are 0 and 1.05 from a synthetic one, test rows 0 and 0.2: one tie, one win, two losses.
		{"membership", c.MembershipAUROC, 1.5 / 4},
	} {
		if math.Abs(v.got-v.want) > 1e-11 {
			t.Errorf("%s is %v, want %v", v.what, v.got, v.want)
		}
	}
	weighted, _, err := CompareCloseness(train, test, synthetic, []float64{2, 1, 0, 1, 0}, ClosenessOptions{})
	testkit.Must(t, err)
	twice, _, err := CompareCloseness(train, test, synthetic.Subset([]int{0, 0, 1, 3}), nil, ClosenessOptions{})
	if err != nil || *weighted != *twice {
		t.Errorf("weights give %+v, rows repeated %+v; %v", *weighted, *twice, err)
	}
}

func TestCompareClosenessTellsCopiesFromSamples(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	train, test := shared(t, "flchain")
	remembered, notes, err := CompareCloseness(train, test, train, nil, ClosenessOptions{})
	testkit.Must(t, err)
	if remembered.CopiesTrain < 0.2 || remembered.CloserToTrain < 0.6 || remembered.MembershipAUROC < 0.9 {
		t.Errorf("training rows as synthetic ones: %+v", remembered)
	}
	if !slices.ContainsFunc(notes, func(n string) bool {
		return strings.Contains(n, "closeness: 100% of the synthetic rows equal one of all 6299 training rows")
	}) {
		t.Errorf("notes %q", notes)
	}
	fresh, _, err := CompareCloseness(train, test, shuffled(t, train, 4000, 1), nil, ClosenessOptions{Seed: 3})
	testkit.Must(t, err)
	if math.Abs(fresh.CloserToTrain-0.5) > 0.05 || math.Abs(fresh.MembershipAUROC-0.5) > 0.05 {
		t.Errorf("shuffled rows: %+v", fresh)
	}
}

func TestCompareClosenessIsTheSameOnOneProcessor(t *testing.T) {
	train, test := shared(t, "flchain")
	synthetic := shuffled(t, train, 1000, 2)
	o := ClosenessOptions{Queries: 500, Rows: 700, Seed: 5}
	many, notes, err := CompareCloseness(train, test, synthetic, nil, o)
	if err != nil || len(notes) != 4 {
		t.Fatal(notes, err)
	}
	want := "closeness: membership was tested for 250 training and 250 test rows with 700 synthetic ones, drawn at " +
		"random"
	if !slices.Contains(notes, want) {
		t.Errorf("notes %q", notes)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if one, _, err := CompareCloseness(train, test, synthetic, nil, o); err != nil || *one != *many {
		t.Errorf("%+v on one processor, %+v on several; %v", one, many, err)
	}
}

// An empty cell is as far from a small number as from a large one, and -0 is 0.
func TestCompareClosenessOfEmptyCellsAndZeros(t *testing.T) {
	s := schemaOf(t, pairSchema)
	train, test := tableOf(t, s, []float64{0, 0, 0, 0}), tableOf(t, s, []float64{100, 0, 0, 0})
	c, _, err := CompareCloseness(train, test, tableOf(t, s, []float64{math.NaN(), 0, 0, 0}), nil, ClosenessOptions{})
	testkit.Must(t, err)
	if c.DistanceTrain != 0.25 || c.DistanceTest != 0.25 {
		t.Errorf("an empty cell is %v and %v away, want 0.25", c.DistanceTrain, c.DistanceTest)
	}
	c, _, err = CompareCloseness(train, test, tableOf(t, s, []float64{math.Copysign(0, -1), 0, 0, 0}), nil,
		ClosenessOptions{})
	testkit.Must(t, err)
	if c.CopiesTrain != 1 || c.DistanceTrain != 0 {
		t.Errorf("-0 is no copy of 0: %+v", *c)
	}
}

func TestCompareClosenessSaysThatTestRowsWereTrainedOn(t *testing.T) {
	s := schemaOf(t, pairSchema)
	a, b, c := []float64{10, 0, 0, 0}, []float64{20, 5, 1, 1}, []float64{30, 5, 1, 1}
	train := tableOf(t, s, a, b)
	for _, x := range []struct {
		test *partition.Table
		says bool
	}{{train, true}, {tableOf(t, s, a, c), true}, {tableOf(t, s, a, c, c), false}} {
		_, notes, err := CompareCloseness(train, x.test, train, nil, ClosenessOptions{})
		testkit.Must(t, err)
		if got := strings.Contains(strings.Join(notes, "\n"), "of the test rows equal a training row"); got != x.says {
			t.Errorf("%d test rows: notes %q", x.test.Len(), notes)
		}
	}
}

// The search abandons points early; it must find the same as a plain search.
func TestNearestIsTheSmallestDistance(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	for _, d := range []int{1, 3, 4, 5, 9, 16} {
		points, query := make([]float64, 200*d), make([]float64, d)
		for range 50 {
			for i := range points {
				points[i] = []float64{random.Float64(), float64(random.IntN(3)), absent}[random.IntN(3)]
			}
			for i := range query {
				query[i] = []float64{random.Float64(), float64(random.IntN(3)), absent}[random.IntN(3)]
			}
			want := math.Inf(1)
			for at := 0; at < len(points); at += d {
				sum := 0.0
				for k, q := range query {
					sum += math.Min(math.Abs(q-points[at+k]), 1)
				}
				want = math.Min(want, sum)
			}
			if got := nearest(query, points); math.Abs(got-want) > 1e-12 {
				t.Fatalf("%d columns: %v, want %v", d, got, want)
			}
		}
	}
}

func TestCompareClosenessRefuses(t *testing.T) {
	s := schemaOf(t, pairSchema)
	table := tableOf(t, s, []float64{10, 0, 0, 0}, []float64{20, 5, 1, 1})
	for name, f := range map[string]func() error{
		"no training table": func() error {
			_, _, err := CompareCloseness(nil, table, table, nil, ClosenessOptions{})
			return err
		},
		"no test rows": func() error {
			_, _, err := CompareCloseness(table, partition.NewTable(s), table, nil, ClosenessOptions{})
			return err
		},
		"no queries": func() error {
			_, _, err := CompareCloseness(table, table, table, nil, ClosenessOptions{Queries: -1})
			return err
		},
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
