package runfile

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Spec is a run.yaml. Paths are relative to the file.
type Spec struct {
	// Name names the run in the cluster and in its ledger. A name is used once.
	Name string `yaml:"name"`
	// Purpose is what the run is for, for people at the sites who decide about it: a line of at
	// most 200 characters. Default: the study's, or none.
	Purpose string `yaml:"purpose"`
	// Study is the path of the study.yaml that the run is of. Default: none.
	Study string `yaml:"study"`
	// Schema is the path of the public schema.yaml.
	Schema string `yaml:"schema"`
	// Data lists the sites of a local run; elsewhere nodes bring their data.
	Data []Data `yaml:"data"`
	// Privacy is what the run may spend, and for whom.
	Privacy Privacy `yaml:"privacy"`
	// Teachers is the number of teachers over all sites: more drown the noise better, and each
	// learns from fewer records. Of a pipeline without teachers it is the number of parts that a
	// quorum is a share of. Default: 0, chosen: 1000, and one for each entry of Data where the
	// pipeline has none.
	Teachers int `yaml:"teachers"`
	// Pipeline: marginals or pategan (tables), or embed, gpate or dpgan (tables and images); see
	// package pipelines. Default: marginals for tables, embed for images.
	Pipeline string `yaml:"pipeline"`
	// Post lists stages after training, of pategan and dpgan: pgb, drs or both. Default:
	// none.
	Post []string `yaml:"post"`
	// Weights adds a weight to each synthetic row: none (default), discriminator (free),
	// logreg-noised, logreg-debiased or dp-mlp; for comparison, NOT PRIVATE, logreg or mlp.
	Weights string `yaml:"weights"`
	// Aggregation says how the answers of sites are added up.
	Aggregation Aggregation `yaml:"aggregation"`
	// Release says what is written.
	Release Release `yaml:"release"`
	// Evaluate names real rows to measure against; they stay where they are.
	Evaluate results.Evaluate `yaml:"evaluate"`
	// Seed makes training repeatable. Noise never depends on it. Default: 1.
	Seed uint64 `yaml:"seed"`
	// Sections hold the options of pipelines, stages and warm starts, by the names of the
	// sections; those of pipelines that the run does not use are left alone.
	Sections map[string]pipeline.Options `yaml:"-"`

	// Path is the file the spec came from, Text its content.
	Path string `yaml:"-"`
	Text string `yaml:"-"`
	// Agreed is what Study holds, nil where the run is of none.
	Agreed *Agreed `yaml:"-"`
}

// Release says what is written.
type Release struct {
	// Rows is the number of synthetic rows. Default: 6000. It is public, so
	// it must not be taken from the data.
	Rows int `yaml:"rows"`
	// Format: csv (default) or parquet.
	Format string `yaml:"format"`
	// Private marks the release as one that is given away: methods that are NOT PRIVATE are
	// refused. Default: true. Without it there is no certificate.
	Private bool `yaml:"private"`
}

// Privacy is the budget and what it protects.
type Privacy struct {
	Epsilon float64 `yaml:"epsilon"`
	// Delta. Default: -1, chosen by Records, and an error where there is no such number.
	Delta float64 `yaml:"delta"`
	// DeltaChosen says that it was.
	DeltaChosen bool `yaml:"-"`
	// Unit: record (default), or the schema's unit column.
	Unit string `yaml:"unit"`
	// Guarantee: data-independent.
	Guarantee string `yaml:"guarantee"`
	// Dataset is what this and all later runs in the folder of a local run may spend
	// together; elsewhere the aggregator's operator sets it. Default: this run's budget, so
	// that nothing is left for stages that are added later.
	Dataset *DatasetBudget `yaml:"dataset"`
	// Records is the public number of privacy units at all sites, for the default of Delta and the warning about a
	// delta above one over it; it must not be counted in the data. Default: 0, not known.
	Records int `yaml:"records"`
}

// DatasetBudget is the budget of a local run's dataset.
type DatasetBudget struct {
	Epsilon float64 `yaml:"epsilon"`
	// Delta. Default: that of the run.
	Delta float64 `yaml:"delta"`
}

// DatasetBudget is the budget of a local run's dataset. One for several runs counts by Rényi
// divergences, which suit samples too: plans are for one run.
func (p Privacy) DatasetBudget(filter privacy.Filter) privacy.Budget {
	b := privacy.Budget{Epsilon: p.Epsilon, Delta: p.Delta, Filter: filter}
	if p.Dataset == nil {
		return b
	}
	return privacy.Budget{Epsilon: p.Dataset.Epsilon, Delta: cmp.Or(p.Dataset.Delta, p.Delta),
		Filter: privacy.FilterRDP}
}

// DefaultSpec returns the defaults named at each field.
func DefaultSpec() *Spec {
	return &Spec{
		Privacy:  Privacy{Delta: byRecords, Unit: "record", Guarantee: "data-independent"},
		Teachers: manyTeachers, Pipeline: pipelines.Default.Tables, Weights: pipeline.NoWeights,
		Aggregation: Aggregation{Colluding: 1},
		Evaluate:    results.Evaluate{HoldOut: 0.1},
		Release:     Release{Rows: 6000, Format: tabular.CSV, Private: true}, Seed: 1, Sections: pipelines.Sections(),
	}
}

// manyTeachers is how many there are where a pipeline trains them and the run does not say.
const manyTeachers = 1000

// Load reads a run.yaml over the defaults and validates it.
func Load(path string) (*Spec, error) {
	return read(path, func(file any) (string, error) { return config.LoadText(path, file) })
}

// Read is Load of a text that is in no file; path is what its paths are relative to, and for errors.
func Read(text, path string) (*Spec, error) {
	return read(path, func(file any) (string, error) {
		return text, config.Decode(strings.NewReader(text), file)
	})
}

func read(path string, decode func(file any) (text string, err error)) (*Spec, error) {
	s := DefaultSpec()
	s.ByData()
	if err := s.decode(func(file any) (err error) { s.Text, err = decode(file); return err }); err != nil {
		return nil, err
	}
	s.Path = path
	s.Resolve(path)
	agreed := s.readStudy()
	schema, err := partition.LoadSchema(s.Schema)
	if err != nil {
		schema = nil // an error where it is needed
	}
	s.Choose(schema)
	if err := errors.Join(agreed, s.Validate()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(append([]error{err}, s.missing()...)...))
	}
	return s, nil
}

// byData stands for the pipeline of a spec that names none, until its schema is known.
const byData = "(by the data)"

// ByData leaves the pipeline and the number of teachers to [Spec.Choose].
func (s *Spec) ByData() { s.Pipeline, s.Teachers = byData, 0 }

// byRecords stands for the delta of a spec that says none.
const byRecords = -1

// Choose gives a spec that names no pipeline the default of its data, one that says no number of
// teachers that of its pipeline, and one that says no delta that of its public number of units; nil is the schema of a
// table.
func (s *Spec) Choose(schema *partition.Schema) {
	if p := &s.Privacy; p.Delta == byRecords && p.Records > 0 {
		p.Delta, p.DeltaChosen = meaning.UsualDelta(p.Records), true
	}
	if s.Pipeline == byData {
		s.Pipeline = pipelines.Default.Tables
		if schema != nil && schema.Image != nil {
			s.Pipeline = pipelines.Default.Images
		}
	}
	if s.Teachers == 0 {
		s.Teachers = len(s.Data)
		if p, known := pipelines.Named(s.Pipeline); p.Teachers || !known {
			s.Teachers = manyTeachers
		}
	}
}

// Resolve makes the paths of a spec absolute or relative to the working folder, that are
// relative to the spec's own path.
func (s *Spec) Resolve(path string) {
	s.Path = path
	for i := range s.Data {
		s.Data[i].File = config.Resolve(path, s.Data[i].File)
	}
	for _, p := range []*string{&s.Schema, &s.Study, &s.Evaluate.Test, &s.Evaluate.Train, &s.Evaluate.CoinFlips} {
		*p = config.Resolve(path, *p)
	}
}
