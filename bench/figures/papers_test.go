package figures

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func TestTablesAreComplete(t *testing.T) {
	for _, table := range Tables() {
		if found, err := Find(table.Name); err != nil || found.Title != table.Title {
			t.Errorf("%s: %v", table.Name, err)
		}
		if table.Source == "" || table.Note == "" || !(table.Epsilon > 0) || !(table.Delta > 0) ||
			len(table.Sets) == 0 {
			t.Errorf("table %+v", table)
		}
		for _, s := range table.Sets {
			theirs := s.Theirs(s.Data)
			if len(theirs) < 2 {
				t.Errorf("%s: %d rows of figures", s.Data, len(theirs))
			}
			for _, x := range theirs {
				if x.Who == "" || !(x.AUROC > 0 && x.AUROC <= 1) ||
					!(x.AveragePrecision > 0 && x.AveragePrecision <= 1) {
					t.Errorf("%s: %+v", s.Data, x)
				}
			}
		}
	}
	if _, err := Find("none"); err == nil || !strings.Contains(err.Error(), "use one of: pategan") {
		t.Errorf("an unknown table: %v", err)
	}
}

// Every figure has a paper that is cited, its place there, and a value. Errors belong to figures.
func TestQuotationsAreComplete(t *testing.T) {
	all, err := allQuotations()
	testkit.Must(t, err)
	for i, q := range all.Figures {
		if cite, err := cite(q.Paper); err != nil || cite == "" || q.Source == "" || len(q.Methods) == 0 {
			t.Errorf("%+v: %v", q, err)
		}
		if first, err := quote(q.Paper, q.Data, q.Epsilon, q.Measure); err != nil || first != &all.Figures[i] {
			t.Errorf("%+v: there are two, or none: %v", q, err)
		}
		for method, v := range q.Methods {
			if !(v > 0) {
				t.Errorf("%s, %s: %v", q.Data, method, v)
			}
		}
		for method := range q.Errors {
			if q.Methods[method] == 0 {
				t.Errorf("%s: an error of %s, which has no figure", q.Data, method)
			}
		}
	}
	if v := MustQuote("dpgan", "mnist", 10, "accuracy", "step schedule"); v != 0.95 {
		t.Errorf("DPGAN on MNIST: %v", v)
	}
	if _, err := quote("dpgan", "mnist", 3, "accuracy"); err == nil || !strings.Contains(err.Error(), "at epsilon 3") {
		t.Errorf("a figure that is not there: %v", err)
	}
	if _, err := cite("none"); err == nil {
		t.Error("a paper that is not there is cited")
	}
}

func TestRunRefuses(t *testing.T) {
	table := pateGAN()
	for name, c := range map[string]struct {
		o    Options
		says string
	}{
		"two seeds":   {Options{Seeds: 2}, "at least 3"},
		"no folder":   {Options{Seeds: 3, Data: "nowhere"}, "data set credit: "},
		"unknown set": {Options{Seeds: 3, Sets: []string{"iris"}}, `no data set "iris"`},
	} {
		if _, err := Run(t.Context(), table, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
}

// The example stands for a data set of a paper: real rows are ranked, and a
// cancelled table ends.
func TestAverageOfRealRows(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "flchain")
	schema, err := partition.LoadSchema(filepath.Join(dir, "schema.yaml"))
	testkit.Must(t, err)
	read := func(split string) *partition.Table {
		table, err := tabular.ReadCSV(schema, filepath.Join(dir, schema.Files[split].Path), tabular.Options{})
		testkit.Must(t, err)
		return table
	}
	train, test := read("train"), read("test")
	r, err := Average(t.Context(), train, test)
	// scikit-learn's twelve reach 0.82 on average.
	if err != nil || math.Abs(r.AUROC-0.82) > 0.02 || r.AveragePrecision < 0.6 {
		t.Errorf("%+v, %v", r, err)
	}
	if s := Share(test); math.Abs(s-427.0/1575) > 1e-12 {
		t.Errorf("share of positive rows %v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Average(ctx, train, test); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSummary(t *testing.T) {
	f := summary([]evaluate.Ranking{{AUROC: 0.5, AveragePrecision: 0.1}, {AUROC: 0.6, AveragePrecision: 0.1},
		{AUROC: 0.7, AveragePrecision: 0.1}})
	if math.Abs(f.AUROC-0.6) > 1e-12 || math.Abs(f.AUROCSpread-0.1) > 1e-12 ||
		math.Abs(f.AveragePrecision-0.1) > 1e-12 || f.PrecisionSpread > 1e-12 {
		t.Errorf("%+v", f)
	}
}
