package run

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/partition"
)

// Spec is a run.yaml. Paths are relative to the file.
type Spec struct {
	// Name names the run in the cluster and in its ledger. A name is used once.
	Name string `yaml:"name"`
	// Schema is the path of the public schema.yaml.
	Schema string `yaml:"schema"`
	// Data lists the sites of a local run; elsewhere nodes bring their data.
	Data []Data `yaml:"data"`
	// Privacy is what the run may spend, and for whom.
	Privacy Privacy `yaml:"privacy"`
	// Teachers is the number of teachers over all sites. Default: 1000. More
	// teachers drown the noise better, each learns from fewer records.
	Teachers int `yaml:"teachers"`
	// Pipeline: embed (default), gpate or dpgan (tables and images), or pategan (tables); see
	// package pipelines.
	Pipeline string `yaml:"pipeline"`
	// Post lists stages after training, of pategan and dpgan: pgb, drs or both. Default:
	// none.
	Post []string `yaml:"post"`
	// Weights adds a weight to each synthetic row: none (default), discriminator (free),
	// logreg-noised, logreg-debiased or dp-mlp; for comparison, NOT PRIVATE, logreg or mlp.
	Weights string `yaml:"weights"`
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
}

// Data is the data of one site in a local run.
type Data struct {
	Site string `yaml:"site"`
	// File is CSV, or the idx file of images with that of their labels beside it.
	File string `yaml:"file"`
	// Share is the part of the file that is the site's, chosen by a hash of
	// each record. Sites that share a file get parts that do not overlap.
	// Teachers are divided in proportion to the shares. Default: 1, all. In a
	// schema with a column of role site that column says whose a record is, and
	// shares only divide the teachers.
	Share float64 `yaml:"share"`
}

// UnmarshalYAML reads an entry over its defaults.
func (d *Data) UnmarshalYAML(unmarshal func(any) error) error {
	type fields Data
	f := fields{Share: 1}
	if err := unmarshal(&f); err != nil {
		return err
	}
	*d = Data(f)
	return nil
}

// Privacy is the budget and what it protects.
type Privacy struct {
	Epsilon float64 `yaml:"epsilon"`
	Delta   float64 `yaml:"delta"`
	// Unit: record (default), or the schema's unit column.
	Unit string `yaml:"unit"`
	// Guarantee: data-independent.
	Guarantee string `yaml:"guarantee"`
	// Dataset is what this and all later runs in the folder of a local run may spend
	// together; elsewhere the aggregator's operator sets it. Default: this run's budget, so
	// that nothing is left for stages that are added later.
	Dataset *DatasetBudget `yaml:"dataset"`
}

// DatasetBudget is the budget of a local run's dataset.
type DatasetBudget struct {
	Epsilon float64 `yaml:"epsilon"`
	// Delta. Default: that of the run.
	Delta float64 `yaml:"delta"`
}

// dataset is the budget of a local run's dataset. One for several runs counts by Rényi
// divergences, which suit samples too: plans are for one run.
func (p Privacy) dataset(filter privacy.Filter) privacy.Budget {
	b := privacy.Budget{Epsilon: p.Epsilon, Delta: p.Delta, Filter: filter}
	if p.Dataset == nil {
		return b
	}
	return privacy.Budget{Epsilon: p.Dataset.Epsilon, Delta: cmp.Or(p.Dataset.Delta, p.Delta), Filter: privacy.FilterRDP}
}

// Release says what is written.
type Release struct {
	// Rows is the number of synthetic rows. Default: 6000. It is public, so
	// it must not be taken from the data.
	Rows int `yaml:"rows"`
	// Format: csv.
	Format string `yaml:"format"`
	// Private marks the release as one that is given away: methods that are NOT PRIVATE are
	// refused. Default: true. Without it there is no certificate.
	Private bool `yaml:"private"`
}

// DefaultSpec returns the defaults named at each field.
func DefaultSpec() *Spec {
	return &Spec{
		Privacy:  Privacy{Unit: "record", Guarantee: "data-independent"},
		Teachers: 1000, Pipeline: pipelines.Default, Weights: iw.None,
		Release: Release{Rows: 6000, Format: "csv", Private: true}, Seed: 1, Sections: pipelines.Sections(),
	}
}

// Load reads a run.yaml over the defaults and validates it.
func Load(path string) (*Spec, error) {
	s := DefaultSpec()
	var text string
	if err := s.decode(func(file any) (err error) { text, err = config.LoadText(path, file); return err }); err != nil {
		return nil, err
	}
	s.Path, s.Text = path, text
	s.resolve(path)
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// resolve makes the paths of a spec absolute or relative to the working folder, that are
// relative to the spec's own path.
func (s *Spec) resolve(path string) {
	s.Path = path
	for i := range s.Data {
		s.Data[i].File = config.Resolve(path, s.Data[i].File)
	}
	for _, p := range []*string{&s.Schema, &s.Evaluate.Test, &s.Evaluate.Train, &s.Evaluate.CoinFlips} {
		*p = config.Resolve(path, *p)
	}
}

// maxTeachers is far beyond what one aggregator serves.
const maxTeachers = 1_000_000

// Validate reports every field that cannot work.
func (s *Spec) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if err := config.CheckName(s.Name); err != nil {
		need(false, "name: %w", err)
	}
	need(s.Schema != "", "schema: missing; give the path of the public schema.yaml")
	if _, err := privacy.NewBudget(s.Privacy.Epsilon, s.Privacy.Delta); err != nil {
		errs = append(errs, fmt.Errorf("privacy: %w", err))
	}
	if d := s.Privacy.Dataset; d != nil {
		if _, err := privacy.NewBudget(d.Epsilon, cmp.Or(d.Delta, s.Privacy.Delta)); err != nil {
			errs = append(errs, fmt.Errorf("privacy.dataset: %w", err))
		}
		need(d.Epsilon >= s.Privacy.Epsilon && (d.Delta == 0 || d.Delta >= s.Privacy.Delta), "privacy.dataset: (%v, %v) is less than the run's (%v, %v); it is for this and later runs together", d.Epsilon, d.Delta, s.Privacy.Epsilon, s.Privacy.Delta)
	}
	need(s.Privacy.Unit != "", "privacy.unit: empty; use record or the schema's unit column")
	need(s.Privacy.Guarantee == "data-independent", "privacy.guarantee: %q is not available; use data-independent", s.Privacy.Guarantee)
	need(s.Teachers >= 1 && s.Teachers <= maxTeachers, "teachers: %d is not between 1 and %d", s.Teachers, maxTeachers)
	_, available := pipelines.Named(s.Pipeline)
	need(available, "pipeline: %q is not available; use %s", s.Pipeline, either(pipelines.Names(nil)))
	warm := Section[embed.WarmStart](s)
	need(s.Pipeline != pipelines.Warm.Pipeline || warm.Embed <= 0, "warm_start.embed: %v is a start for a GAN, and pipeline embed is all of it; leave it out", warm.Embed)
	errs = append(errs, s.validateStages()...)
	need(s.Release.Rows >= 1 && s.Release.Rows <= pipeline.MaxRows, "release.rows: %d is not between 1 and %d; the model draws more later", s.Release.Rows, pipeline.MaxRows)
	need(s.Release.Format == "csv", "release.format: %q is not available; use csv", s.Release.Format)
	need(s.Evaluate.Train == "" || s.Evaluate.Test != "", "evaluate.train: set without evaluate.test; name the real rows to test on too")
	need(s.Evaluate.CoinFlips == "" || s.Evaluate.Test != "", "evaluate.coin_flips: set without evaluate.test; name the real rows to test on too")
	if _, err := classify.Named(s.Evaluate.ModelNames()...); err != nil {
		errs = append(errs, fmt.Errorf("evaluate.models: %w, or all", err))
	}
	errs = append(errs, s.validateData()...)
	for _, name := range slices.Sorted(maps.Keys(s.Sections)) {
		errs = append(errs, s.Sections[name].Validate())
	}
	return errors.Join(errs...)
}

// either lists names to choose from: "a, b or c".
func either(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}

func (s *Spec) validateData() (errs []error) {
	sites := map[string]bool{}
	for i, d := range s.Data {
		if err := config.CheckName(d.Site); err != nil {
			errs = append(errs, fmt.Errorf("data[%d].site: %w", i, err))
		}
		if sites[d.Site] {
			errs = append(errs, fmt.Errorf("data[%d].site: %q is there twice; give each site one entry", i, d.Site))
		}
		if d.File == "" {
			errs = append(errs, fmt.Errorf("data[%d].file: missing; give the path of the site's CSV or idx file", i))
		}
		if !(d.Share > 0 && d.Share <= 1) {
			errs = append(errs, fmt.Errorf("data[%d].share: %v is not above 0 and at most 1", i, d.Share))
		}
		sites[d.Site] = true
	}
	return errs
}

// checkShares refuses parts of a file that overlap.
func (s *Spec) checkShares() error {
	shares := map[string]float64{}
	for i, d := range s.Data {
		file := fileKey(d.File)
		shares[file] += d.Share
		if shares[file] > 1+1e-9 {
			return fmt.Errorf("data[%d].share: the shares of %s add up to more than 1; a record would be at two sites", i, d.File)
		}
	}
	return nil
}

// LoadSchema reads the spec's schema and checks the spec against it.
func (s *Spec) LoadSchema() (*partition.Schema, error) {
	schema, err := partition.LoadSchema(s.Schema)
	if err != nil {
		return nil, err
	}
	if err := schema.CheckUnit(s.Privacy.Unit); err != nil {
		return nil, fmt.Errorf("%s: privacy.unit: %w", s.Path, err)
	}
	if schema.SiteColumn() < 0 {
		if err := s.checkShares(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	if schema.Image != nil {
		if err := s.checkImages(schema); err != nil {
			return nil, err
		}
	}
	return schema, s.checkStages(schema)
}

// fileKey is the same for all paths of one file, so that no record gets to two
// sites because its file was named in two ways.
func fileKey(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path // of a file that is not there, which is an error later
}

// Sites returns for each entry of Data the part [from, to) of its file: parts
// of one file follow each other and do not overlap. Where the schema has a site
// column all of the file is read, and each site takes its own records.
func (s *Spec) Sites(schema *partition.Schema) [][2]float64 {
	if schema.SiteColumn() >= 0 {
		parts := make([][2]float64, len(s.Data))
		for i := range parts {
			parts[i] = [2]float64{0, 1}
		}
		return parts
	}
	used := map[string]float64{}
	parts := make([][2]float64, len(s.Data))
	for i, d := range s.Data {
		file := fileKey(d.File)
		from := used[file]
		to := math.Min(1, from+d.Share)
		if to > 1-1e-9 {
			to = 1
		}
		parts[i] = [2]float64{from, to}
		used[file] = to
	}
	return parts
}

// DatasetBudget is the budget of the dataset of a local run of the job.
func (j *Job) DatasetBudget() privacy.Budget { return j.Spec.Privacy.dataset(j.Plan.Filter()) }
