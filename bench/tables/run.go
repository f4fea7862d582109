package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// attempt is a case of a group with a seed, as it is or without what the sites know.
type attempt struct {
	group
	runCase
	data *dataset
	seed int
	null bool
	// options are the pipeline's, over those of group and case.
	options string
	dir     string // is emptied first
}

// rows are the synthetic ones of a run, with its ledger and certificate verified.
func (a *attempt) rows(ctx context.Context, o *figures.Line) (*table, *results.Result, error) {
	if err := os.RemoveAll(a.dir); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return nil, nil, err
	}
	if a.made != nil {
		rows, err := a.made(ctx, a)
		return rows, nil, err
	}
	if a.runs != nil {
		return a.runs(ctx, a, o)
	}
	return a.run(ctx, nil, local.Options{})
}

// run runs the case on a local cluster and returns its synthetic rows. Change, which may be nil,
// changes the run; of the options of the cluster the hooks count.
func (a *attempt) run(ctx context.Context, change func(*runfile.Spec),
	o local.Options) (*table, *results.Result, error) {
	spec, err := a.load()
	if err != nil {
		return nil, nil, err
	}
	if change != nil {
		change(spec)
	}
	result, err := a.execute(ctx, spec, o)
	if err != nil {
		return nil, result, err
	}
	name := result.Outputs["synthetic"]
	if a.notPrivate {
		name = result.Outputs["not_private"]
	}
	rows, err := tabular.Read(a.data.train.Schema(), name, tabular.Options{IgnoreUnit: true, Weights: true})
	return rows, result, err
}

// execute runs a spec and verifies what it leaves.
func (a *attempt) execute(ctx context.Context, spec *runfile.Spec, o local.Options) (*results.Result, error) {
	o.Out, o.Coin = filepath.Join(a.dir, "out"), a.null
	if err := os.RemoveAll(o.Out); err != nil {
		return nil, err
	}
	result, err := local.Run(ctx, spec, o)
	if err != nil {
		return nil, err
	}
	return result, verify(o.Out, !spec.Release.Private, spec.Privacy.Epsilon)
}

// load writes the run.yaml of the case and loads it.
func (a *attempt) load() (*runfile.Spec, error) {
	text, err := a.text()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(a.dir, "run.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return runfile.Load(file)
}

// text is the run.yaml of the case, in JSON, which is YAML too.
func (a *attempt) text() ([]byte, error) {
	sites := max(1, a.sites)
	var rows []any
	for i := range sites {
		rows = append(rows, map[string]any{
			"site": fmt.Sprintf("s%d", i+1), "file": a.data.trainPath, "share": 1 / float64(sites),
		})
	}
	fields := map[string]any{
		"name": "measured", "schema": a.data.schemaPath, "seed": a.seed, "pipeline": a.pipeline, "data": rows,
		"privacy":  map[string]any{"epsilon": a.epsilon, "delta": a.delta, "records": a.data.records},
		"teachers": max(sites, a.teachers),
		"release":  map[string]any{"rows": a.group.rows, "private": !a.notPrivate},
	}
	if a.notPrivate {
		fields["evaluate"] = map[string]any{
			"test": a.data.testPath, "train": a.data.trainPath, "models": []string{"logistic regression"},
		}
	}
	more := []string{a.group.fields, a.runCase.fields}
	if a.options != "" {
		more = append(more, a.pipeline+": "+a.options)
	}
	for _, text := range more {
		var err error
		if fields, err = over(fields, text); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// over puts YAML over fields, field by field.
func over(below map[string]any, text string) (map[string]any, error) {
	var above map[string]any
	if err := config.Decode(strings.NewReader(text), &above); err != nil {
		return nil, fmt.Errorf("fields %s: %w", text, err)
	}
	return merge(below, above), nil
}

func merge(below, above map[string]any) map[string]any {
	merged := map[string]any{}
	for _, fields := range []map[string]any{below, above} {
		for k, v := range fields {
			part, ok := v.(map[string]any)
			old, both := merged[k].(map[string]any)
			if ok && both {
				merged[k] = merge(old, part)
			} else {
				merged[k] = v
			}
		}
	}
	return merged
}

// without is a table without its weights.
func without(t *table) *table {
	bare := partition.NewTable(t.Schema())
	for i := range t.Len() {
		if bare.Append(t.Cells(i), "") != nil {
			return t // which cannot be: its rows fit its schema
		}
	}
	return bare
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
	certificate, err := certificate.Read(path)
	if err != nil {
		return err
	}
	ledger, err := os.ReadFile(filepath.Join(out, "ledger.jsonl"))
	if err != nil {
		return err
	}
	if err := certificate.Verify(bytes.NewReader(ledger)); err != nil {
		return err
	}
	if certificate.EpsilonSpent > epsilon*(1+1e-9) {
		return fmt.Errorf("epsilon %v was spent of %v", certificate.EpsilonSpent, epsilon)
	}
	return nil
}
