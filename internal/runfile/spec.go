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
	// Name is the name of the run in the cluster and in its ledger: 1 to 64 small letters, digits, dots and hyphens.
	// Each cluster uses a name once. The same name with the same spec continues that run; with another spec it is
	// refused. Required.
	Name string `yaml:"name"`
	// Purpose is what the run is for: a line of at most 200 printable characters. It is part of the spec. People at the
	// sites read it before they let the run begin (docs/approvals.md), and nothing checks it.
	// Default: the study's, or none.
	Purpose string `yaml:"purpose"`
	// Study is the path of the study.yaml to which the run belongs. Its name, title, purpose, permit, contact, last day
	// and SHA-256 travel in the run's spec. Sites (docs/sites-policy.md#studies) and the aggregator
	// (docs/config-aggregator.md) can require them, and people read them. The study must allow pipeline, stages, unit,
	// budget, masks and members, and the schema must be the one next to it.
	Study string `yaml:"study"`
	// Schema is the path of the public schema.yaml (docs/schema.md). Required.
	Schema string `yaml:"schema"`
	// Data lists the sites' files, for `conclave local` only. In a cluster the nodes bring their data, and this field
	// does nothing.
	Data []Data `yaml:"data"`
	// Privacy is what the run may spend, and whom it protects.
	Privacy Privacy `yaml:"privacy"`
	// Teachers is the number of teachers at all nodes together. More teachers drown the noise better, but each learns
	// from fewer records; half a dozen records each work on the example. 0 takes 1000 for `pategan` and `gpate`, which
	// train teachers. For other pipelines it is the number of parts that a quorum is a share of, and 0 takes one for
	// each entry of `data`. A cluster needs a number: the sum of `teachers` of its nodes, and at least what is
	// connected.
	Teachers int `yaml:"teachers"`
	// Pipeline is the way to train (docs/pipelines.md). `marginals`: counts of cells of columns and pairs, and a model
	// of them (docs/marginals.md); tables only. `embed`: one noisy sum of features of all records, to which a generator
	// is fitted (docs/embed.md). `pategan`: teachers vote real or fake (docs/pategan.md); tables only. `gpate`:
	// teachers say which way to move a record (docs/gpate.md). `dpgan`: one discriminator learns from the records of
	// all sites (docs/dpgan.md). Sections of other pipelines are checked and then ignored.
	Pipeline string `yaml:"pipeline"`
	// Post lists stages after training, in this order: `pgb` and `drs` (docs/boosting.md) for `pategan` and `dpgan`,
	// `relabel` (docs/relabel.md) for data with a label of two or more classes. A run that names neither `pipeline`
	// nor `post` has `relabel` for images of at least 8 x 8 pixels. So have tables of many columns, if
	// `privacy.records` is 5,000 or more (docs/relabel.md). The study must allow it. `[]` leaves it out.
	Post []string `yaml:"post"`
	// PostChosen says that the stages were chosen.
	PostChosen bool `yaml:"-"`
	// Weights is the method that gives each synthetic row a weight (docs/weights.md); tables only. `discriminator` is
	// free. `logreg-noised`, `logreg-debiased` and `dp-mlp` cost a part of the budget. `logreg` and `mlp` are
	// NOT PRIVATE, for comparison. `none` gives no weights.
	Weights string `yaml:"weights"`
	// Aggregation is how the answers of sites are added up.
	Aggregation Aggregation `yaml:"aggregation"`
	// Release is what the run writes.
	Release Release `yaml:"release"`
	// Evaluate names real rows to compare with. They stay where they are.
	Evaluate results.Evaluate `yaml:"evaluate"`
	// Seed makes training and the final rows repeatable, given the same releases. Noise never depends on it: two runs
	// differ.
	Seed uint64 `yaml:"seed"`
	// Sections hold the options of pipelines, stages and warm starts, by the names of their sections. Those that the
	// run does not use are ignored.
	Sections map[string]pipeline.Options `yaml:"-"`

	// Path is the file the spec came from, Text its content.
	Path string `yaml:"-"`
	Text string `yaml:"-"`
	// Agreed is what Study holds, nil where the run is of none.
	Agreed *Agreed `yaml:"-"`
}

// Release says what is written.
type Release struct {
	// Rows is the number of synthetic rows. It is **public**: do not take it from the data.
	Rows int `yaml:"rows"`
	// Format is the format of the rows. `csv` writes `synthetic.csv`. `parquet` writes `synthetic.parquet` instead
	// (docs/formats.md#files), with types and without losing digits; both are read wherever rows are named. Images also
	// get idx files, and `samples.png` with ten of each class.
	Format string `yaml:"format"`
	// Private is whether methods that are NOT PRIVATE are refused. `false` allows them (`pgb.private: false`, `weights:
	// logreg` or `mlp`), for comparison. The rows are then in `NOT-PRIVATE.csv` or `.parquet`, whatever the methods,
	// and there is no certificate, ledger or report.
	Private bool `yaml:"private"`
}

// Privacy is the budget and what it protects.
type Privacy struct {
	// Epsilon is the run's budget. Smaller protects better and teaches less. Required.
	Epsilon float64 `yaml:"epsilon"`
	// Delta is the probability that the bound may fail. -1 takes the smaller of 1e-5 and a tenth of one over `records`,
	// and the run says so when it starts. Publishing each unit with that probability would publish a tenth of a unit on
	// average; Dwork and Roth (2014, section 2.3) want delta far below one over the number. Without `records` delta is
	// required.
	Delta float64 `yaml:"delta"`
	// DeltaChosen says that delta was chosen.
	DeltaChosen bool `yaml:"-"`
	// Unit is what is protected. `record`, or the name of the schema's column of role unit: all records of a person
	// are then protected together and share one teacher. This costs quality if persons have many records.
	Unit string `yaml:"unit"`
	// Overlap is at how many sites one privacy unit may be at most, as the dataset has it. With 1 the units of the
	// sites are disjoint.
	Overlap int `yaml:"overlap"`
	// Guarantee is the kind of guarantee; there is only one.
	Guarantee string `yaml:"guarantee"`
	// Dataset is what this and later runs in the same folder may spend together, such as stages of a finished run
	// (docs/boosting.md#after-a-run); for `conclave local` only. Without it the run's own budget leaves nothing. Its
	// filter is `rdp`, which counts the run's own releases slightly higher. In a cluster the aggregator's
	// configuration sets this.
	Dataset *DatasetBudget `yaml:"dataset"`
	// Records is the **public** number of privacy units at all sites, for the default of `delta` and for a warning
	// (docs/privacy-figures.md#warnings) if delta is above one over it. Do not count it in the data. 0 means not known.
	Records int `yaml:"records"`
}

// DatasetBudget is the budget of a local run's dataset.
type DatasetBudget struct {
	// Epsilon is at least the run's. Required.
	Epsilon float64 `yaml:"epsilon"`
	// Delta is at least the run's. Default: the run's.
	Delta float64 `yaml:"delta"`
}

// DatasetBudget is the budget of a local run's dataset. One for several runs counts by Rényi
// divergences, which suit samples too: plans are for one run.
func (p Privacy) DatasetBudget(filter privacy.Filter) privacy.Budget {
	b := p.Budget(filter)
	if p.Dataset != nil {
		b.Epsilon, b.Delta, b.Filter = p.Dataset.Epsilon, cmp.Or(p.Dataset.Delta, p.Delta), privacy.FilterRDP
	}
	return b
}

// Budget is the run's budget, with the filter.
func (p Privacy) Budget(filter privacy.Filter) privacy.Budget {
	return privacy.Budget{Epsilon: p.Epsilon, Delta: p.Delta, Filter: filter}.WithOverlap(p.Overlap)
}

// DefaultSpec returns the spec of an empty file. Zero values are not defaults: start from it.
func DefaultSpec() *Spec {
	return &Spec{
		Privacy:  Privacy{Delta: byRecords, Unit: "record", Overlap: 1, Guarantee: "data-independent"},
		Teachers: manyTeachers, Pipeline: pipelines.Default.Tables, Weights: pipeline.NoWeights,
		Aggregation: Aggregation{Colluding: 1},
		Evaluate:    results.Evaluate{HoldOut: 0.1},
		Release:     Release{Rows: 6000, Format: tabular.CSV, Private: true}, Seed: 1, Sections: pipelines.Sections(),
	}
}

// manyTeachers is the default number of teachers for pipelines that train them.
const manyTeachers = 1000

// Load reads a run.yaml over the defaults and validates it.
func Load(path string) (*Spec, error) {
	return read(path, func(file any) (string, error) { return config.LoadText(path, file) })
}

// Read is Load for a text without a file. path is the base of relative paths, and appears in errors.
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
		schema = nil // loading it reports the error where it is needed
	}
	s.Choose(schema)
	if err := errors.Join(agreed, s.Validate()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(append([]error{err}, s.missing()...)...))
	}
	return s, nil
}

// byData stands for the pipeline of a spec without one, until its schema is known.
const byData = "(by the data)"

// ByData leaves the pipeline and the number of teachers to [Spec.Choose].
func (s *Spec) ByData() { s.Pipeline, s.Teachers = byData, 0 }

// byRecords stands for the delta of a spec without one.
const byRecords = -1

// Choose fills in what the spec leaves out: the pipeline and its stage by its data, the number of teachers by its
// pipeline, and delta by the public number of units. A nil schema counts as the schema of a table.
func (s *Spec) Choose(schema *partition.Schema) {
	if p := &s.Privacy; p.Delta == byRecords && p.Records > 0 {
		p.Delta, p.DeltaChosen = meaning.UsualDelta(p.Records), true
	}
	if s.Pipeline == byData {
		s.Pipeline = pipelines.Default.Tables
		if schema != nil && schema.Image != nil {
			s.Pipeline = pipelines.Default.Images
		}
		if schema != nil {
			s.choosePost(schema)
		}
	}
	if s.Teachers == 0 {
		s.Teachers = len(s.Data)
		if p, known := pipelines.Named(s.Pipeline); p.Teachers || !known {
			s.Teachers = manyTeachers
		}
	}
}

// Resolve converts the paths of a spec, which are relative to the spec's own path, to paths that are absolute
// or relative to the working folder.
func (s *Spec) Resolve(path string) {
	s.Path = path
	for i := range s.Data {
		s.Data[i].File = config.Resolve(path, s.Data[i].File)
	}
	for _, p := range []*string{&s.Schema, &s.Study, &s.Evaluate.Test, &s.Evaluate.Train, &s.Evaluate.CoinFlips} {
		*p = config.Resolve(path, *p)
	}
}
