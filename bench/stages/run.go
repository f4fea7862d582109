package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/partition"
)

// Table is one of rows.
type Table = partition.Table

// Dataset is where a data set lies, with its real rows.
type Dataset struct {
	Train, Test                   *Table
	schemaPath, trainPath, testAt string
}

// open reads a data set, or fails with os.ErrNotExist.
func open(dir, name string) (*Dataset, error) {
	folder, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	d := &Dataset{schemaPath: filepath.Join(folder, "schema.yaml")}
	if _, err := os.Stat(d.schemaPath); err != nil {
		return nil, err
	}
	schema, err := partition.LoadSchema(d.schemaPath)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		split string
		table **Table
		path  *string
	}{{"train", &d.Train, &d.trainPath}, {"test", &d.Test, &d.testAt}} {
		*of.path = filepath.Join(folder, of.split+".csv.gz")
		if *of.table, err = partition.Read(schema, *of.path, partition.ReadOptions{}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// text is the run.yaml of a case.
func text(g Group, c Case, schema, train, test string, seed int) string {
	var sites []string
	for i := range max(1, g.Sites) {
		sites = append(sites, fmt.Sprintf("{site: s%d, file: %q, share: %g}", i+1, train, 1/float64(max(1, g.Sites))))
	}
	evaluate, private := "", true
	if c.NotPrivate {
		private = false
		evaluate = fmt.Sprintf("evaluate: {test: %q, train: %q, models: [logistic regression]}\n", test, train)
	}
	return fmt.Sprintf("name: measured\nschema: %q\nseed: %d\npipeline: %s\ndata: [%s]\nprivacy: {epsilon: %g, delta: %g}\nteachers: %d\nrelease: {rows: %d, private: %t}\n%s%s\n%s\n",
		schema, seed, g.Pipeline, strings.Join(sites, ", "), g.Epsilon, g.Delta, max(1, g.Sites, g.Teachers), g.Rows, private, evaluate, g.Run, c.Run)
}

// once runs a case and measures its rows. What goes wrong is an outcome too.
func once(ctx context.Context, g Group, c Case, d *Dataset, seed int, null bool, dir string) []*outcome {
	o := &outcome{Group: g.Name, Case: c.Name, Seed: seed, Null: null}
	started := time.Now()
	rows, result, err := released(ctx, g, c, d, seed, null, dir)
	o.Seconds = time.Since(started).Seconds()
	if c.Refused != "" {
		switch {
		case err == nil:
			err = errors.New("it ran, and should have been refused")
		case strings.Contains(err.Error(), c.Refused):
			err = nil
		}
		o.fail(err)
		return []*outcome{o}
	}
	if result != nil {
		o.Spent, o.Notes = result.EpsilonSpent, result.Notes
	}
	all := []*outcome{o}
	if err == nil && g.Measure != nil {
		var figures []float64
		if figures, err = g.Measure.Of(ctx, d, rows); err == nil {
			o.Figures = g.Measure.named(figures)
		}
		if err == nil && c.Bare != "" {
			plain := *o
			plain.Case, plain.Notes = c.Bare, nil
			if figures, err = g.Measure.Of(ctx, d, without(rows)); err == nil {
				plain.Figures = g.Measure.named(figures)
				all = append(all, &plain)
			}
		}
	}
	o.fail(err)
	return all
}

// without is a table without its weights.
func without(t *Table) *Table {
	bare := partition.NewTable(t.Schema())
	for i := range t.Len() {
		if bare.Append(t.Cells(i), "") != nil {
			return t // which cannot be: its rows fit its schema
		}
	}
	return bare
}

// released are the rows of a run, whose ledger and certificate hold.
func released(ctx context.Context, g Group, c Case, d *Dataset, seed int, null bool, dir string) (*Table, *run.Result, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(file, []byte(text(g, c, d.schemaPath, d.trainPath, d.testAt, seed)), 0o600); err != nil {
		return nil, nil, err
	}
	spec, err := run.Load(file)
	if err != nil {
		return nil, nil, err
	}
	out := filepath.Join(dir, "out")
	result, err := local.Run(ctx, spec, local.Options{Out: out, Coin: null})
	if err != nil {
		return nil, nil, err
	}
	if err := verify(out, c.NotPrivate, g.Epsilon); err != nil {
		return nil, result, err
	}
	name := result.Outputs["synthetic"]
	if c.NotPrivate {
		name = result.Outputs["not_private"]
	}
	table, err := partition.Read(d.Train.Schema(), name, partition.ReadOptions{IgnoreUnit: true, Weights: true})
	return table, result, err
}

// verify holds the certificate against the ledger and the budget. Runs for comparison have
// none.
func verify(out string, notPrivate bool, epsilon float64) error {
	path := filepath.Join(out, "certificate.json")
	if notPrivate {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = errors.New("a run that is NOT PRIVATE has a certificate")
		}
		return err
	}
	certificate, err := report.ReadCertificate(path)
	if err != nil {
		return err
	}
	ledger, err := os.ReadFile(filepath.Join(out, "ledger.jsonl"))
	if err != nil {
		return err
	}
	if err := report.VerifyAgainstLedger(certificate, bytes.NewReader(ledger)); err != nil {
		return err
	}
	if certificate.EpsilonSpent > epsilon*(1+1e-9) {
		return fmt.Errorf("epsilon %v was spent of %v", certificate.EpsilonSpent, epsilon)
	}
	return nil
}
