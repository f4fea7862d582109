package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const schemaText = `name: tiny
label: label
columns:
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: label, kind: binary}
  - {name: patient, kind: categorical, categories: [a, b], role: unit}
`

const wideText, imageSchema = partitiontest.Wide, partitiontest.Bars

// unlabelled and single are schemas without a label, and of one column.
const (
	unlabelled = "name: u\ncolumns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n  - {name: c, kind: " +
		"categorical, categories: [x, y, z]}\n"
	single = "name: s\ncolumns:\n  - {name: a, kind: continuous, lower: 0, upper: 1}\n"
)

const good = `name: r1
schema: schema.yaml
privacy: {epsilon: 1, delta: 1e-5}
teachers: 1000
`

// studyText is a study that the run good fits.
const studyText = `name: heart
title: Heart failure in three hospitals
purpose: Synthetic rows for teaching
permit: IRB 2026-114
contact: Dr. Berg, +49 30 1234
expires: 2199-06-30
dataset: d
schema: schema.yaml
budget: {epsilon: 2, delta: 1e-5}
pipelines: [marginals, pategan]
aggregator: {hosts: [localhost]}
sites: [north, south]
students: [lab]
`

// Runs of pipelines whose numbers are set by hand, without a warm start.
const (
	votes     = "pipeline: pategan\nwarm_start: {embed: 0}\n"
	gradients = "pipeline: gpate\nteachers: 400\ngpate: {rounds: 5, records: 12, class_epsilon: 0.05, bins: 10}\n"
	steps     = "pipeline: dpgan\nteachers: 40\nwarm_start: {embed: 0}\n" +
		"dpgan: {steps: 30, rate: 0.1, class_epsilon: 0.05}\n"
	embedding = "pipeline: embed\nteachers: 40\nembed: {features: {waves: 30, bins: 6}}\n"
)

// Runs of G-PATE in which teachers vote on gradients.
const (
	histograms = "gpate: {answers: histogram, mechanism: gnmax, directions: 3}\n"
	winners    = "gpate: {answers: winner, mechanism: confident-gnmax, directions: 3}\n"
)

// write writes files to a new folder and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// load loads a run.yaml next to the tiny schema.
func load(t *testing.T, text string) (*runfile.Spec, error) {
	t.Helper()
	dir := write(t, map[string]string{"schema.yaml": schemaText, "run.yaml": text})
	return runfile.Load(filepath.Join(dir, "run.yaml"))
}

// replaced is text with old replaced, which must be there.
func replaced(t *testing.T, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("no %q to replace", old)
	}
	return strings.Replace(text, old, new, 1)
}

// runOf is a run of epsilon 1 with lines of a run.yaml over the defaults; later texts override earlier ones.
func runOf(t *testing.T, texts ...string) *runfile.Spec {
	t.Helper()
	s := runfile.DefaultSpec()
	s.Name, s.Privacy.Epsilon, s.Privacy.Delta = "r1", 1, 1e-5
	for _, text := range texts {
		testkit.Must(t, s.Parse(text))
	}
	return s
}
