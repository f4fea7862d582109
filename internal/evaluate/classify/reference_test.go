package classify

import (
	_ "embed"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/tabular"
)

var long = flag.Bool("long", false, "rank the models on large data sets, too")

// What scikit-learn gives; made by internal/evaluate/reference.
//
//go:embed testdata/sklearn.json
var sklearnJSON []byte

type reference struct {
	Fixture struct {
		X            [][]float64 `json:"x"`
		Positive     []int       `json:"positive"`
		Weight       []float64   `json:"weight"`
		Coefficients map[string]struct {
			Weights   []float64 `json:"weights"`
			Intercept float64   `json:"intercept"`
		} `json:"coefficients"`
		Probabilities map[string][]float64 `json:"probabilities"`
	} `json:"fixture"`
	Sets map[string]map[string]struct {
		AUROC            float64 `json:"auroc"`
		AveragePrecision float64 `json:"average_precision"`
	} `json:"sets"`
}

var sklearn = sync.OnceValues(func() (reference, error) {
	var r reference
	err := json.Unmarshal(sklearnJSON, &r)
	return r, err
})

func sklearnReference(tb testing.TB) reference {
	tb.Helper()
	r, err := sklearn()
	testkit.Must(tb, err)
	return r
}

func fixtureRows(tb testing.TB) Rows {
	f := sklearnReference(tb).Fixture
	r := Rows{X: Matrix{Rows: len(f.X), Cols: len(f.X[0])}, Weight: f.Weight}
	for i, row := range f.X {
		r.X.Data = append(r.X.Data, row...)
		r.Positive = append(r.Positive, f.Positive[i] == 1)
	}
	return r
}

// scikit-learn was given each row as many times as its weight says, so these tests also check weights.
func TestCoefficientsAreThoseOfScikitLearn(t *testing.T) {
	rows, err := fixtureRows(t).prepare()
	testkit.Must(t, err)
	for _, c := range []struct {
		name string
		fit  func() (linearModel, error)
	}{
		{"logistic regression", func() (linearModel, error) { return fitLogistic(rows, 1) }},
		{"linear svm", func() (linearModel, error) { return fitSVM(rows, 1) }},
		{"linear discriminant analysis", func() (linearModel, error) { return fitDiscriminant(rows) }},
	} {
		want, ok := sklearnReference(t).Fixture.Coefficients[c.name]
		if !ok {
			t.Fatalf("there are no coefficients of %s", c.name)
		}
		model, err := c.fit()
		testkit.Must(t, err)
		got, intercept := model.coefficients()
		got, expected := append(got, intercept), append(want.Weights, want.Intercept)
		largest := 0.0
		for j, w := range expected {
			largest = max(largest, math.Abs(got[j]-w)/max(1, math.Abs(w)))
		}
		t.Logf("%s: at most %.1g off", c.name, largest)
		if !(largest < 1e-5) {
			t.Errorf("%s: coefficients %v, want %v", c.name, got, expected)
		}
	}
}

// coefficients gives the weights per feature in the features' own scale, and the intercept
// that belongs to them.
func (l linearModel) coefficients() (weights []float64, intercept float64) {
	intercept = l.theta[len(l.mean)]
	for j, m := range l.mean {
		weights = append(weights, l.theta[j]/l.scale[j])
		intercept -= weights[j] * m
	}
	return weights, intercept
}

func TestProbabilitiesAreThoseOfScikitLearn(t *testing.T) {
	rows, f := fixtureRows(t), sklearnReference(t).Fixture
	identity := func(z float64) float64 { return z }
	for _, c := range []struct {
		model     *Classifier
		link      func(float64) float64
		tolerance float64
		// Only rows with a known result are compared. In small nodes, splits by different features gain the
		// same, and send other rows to different sides.
		known bool
	}{
		{gaussianBayes(), sigmoid, 1e-6, false},
		{bernoulliBayes(), sigmoid, 1e-6, false},
		{decisionTree(3, 1), identity, 1e-6, false},
		{firstOrderBoosting(20), sigmoid, 1e-6, true},
		{adaBoost(20), sigmoid, 1e-6, false},
		{boosting(), sigmoid, 1e-4, false}, // gradients are float32 there
	} {
		want := f.Probabilities[c.model.Name()]
		if len(want) != rows.X.Rows {
			t.Fatalf("there are %d probabilities of %s", len(want), c.model.Name())
		}
		testkit.Must(t, c.model.Fit(rows))
		got, err := c.model.Score(rows.X)
		testkit.Must(t, err)
		largest := 0.0
		for i, z := range got {
			if c.known && rows.Weight[i] == 0 {
				continue
			}
			largest = max(largest, math.Abs(c.link(z)-want[i]))
		}
		t.Logf("%s: at most %.1g off", c.model.Name(), largest)
		if !(largest < c.tolerance) {
			t.Errorf("%s: probabilities are off by up to %v", c.model.Name(), largest)
		}
	}
}

// shared reads one of the shared data sets.
func shared(tb testing.TB, name string) (train, test Rows) {
	tb.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "data", name)
	if _, err := os.Stat(dir); err != nil {
		tb.Skipf("the data set is not here: %v", err)
	}
	schema, err := partition.LoadSchema(filepath.Join(dir, "schema.yaml"))
	testkit.Must(tb, err)
	read := func(file string) Rows {
		table, err := tabular.ReadCSV(schema, filepath.Join(dir, file), tabular.Options{})
		testkit.Must(tb, err)
		x := encode.New(schema).Encode(table)
		r := Rows{X: Matrix{Rows: x.Len(), Cols: x.Width}}
		for _, v := range x.Features {
			r.X.Data = append(r.X.Data, float64(v))
		}
		for _, c := range x.Classes {
			r.Positive = append(r.Positive, c == schema.Positive())
		}
		return r
	}
	return read("train.csv.gz"), read("test.csv.gz")
}

// seeded returns the model of a name with another seed; false if nothing in it is random.
func seeded(name string, seed uint64) (*Classifier, bool) {
	switch name {
	case "random forest":
		return randomForest(100, seed), true
	case "bagging":
		return bagging(10, seed), true
	case "multi-layer perceptron":
		return mlp(seed), true
	}
	models, err := Named(name)
	if err != nil {
		panic(err)
	}
	return models[0], false
}

func TestModelsRankAsScikitLearnDoes(t *testing.T) {
	for _, c := range []struct {
		data  string
		seeds uint64 // of random models, whose mean is compared
		slow  bool
	}{
		{"breast_cancer_wisconsin", 5, false},
		{"flchain", 5, false},
		{"adult", 1, true},
		{"credit", 1, true},
	} {
		t.Run(c.data, func(t *testing.T) {
			if raced {
				t.Skip("takes many seconds")
			}
			if c.slow && !*long {
				t.Skip("takes many seconds: go test ./evaluate/classify -run TestModelsRank -long")
			}
			train, test := shared(t, c.data)
			figures := sklearnReference(t).Sets[c.data]
			for _, model := range All() {
				want, ok := figures[model.Name()]
				if !ok {
					t.Fatalf("there is no figure of %s", model.Name())
				}
				start := time.Now()
				var areas, precisions []float64
				for seed := range c.seeds {
					model, random := seeded(model.Name(), seed+1)
					if !random && seed > 0 {
						break
					}
					testkit.Must(t, model.Fit(train))
					scores, err := model.Score(test.X)
					testkit.Must(t, err)
					area, err := measure.AUROC(test.Positive, scores, nil)
					testkit.Must(t, err)
					precision, err := measure.AveragePrecision(test.Positive, scores, nil)
					testkit.Must(t, err)
					areas, precisions = append(areas, area), append(precisions, precision)
				}
				area, precision := average(areas), average(precisions)
				t.Logf("%-30s AUROC %.4f (%+.4f, spread %.4f), average precision %.4f (%+.4f), %v each", model.Name(),
					area, area-want.AUROC, slices.Max(areas)-slices.Min(areas), precision,
					precision-want.AveragePrecision,
					(time.Since(start) / time.Duration(len(areas))).Round(time.Millisecond))
				if math.Abs(area-want.AUROC) > 0.02 {
					t.Errorf("%s: AUROC %.4f, want %.4f", model.Name(), area, want.AUROC)
				}
			}
		})
	}
}

func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
