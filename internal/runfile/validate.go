package runfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// maxTeachers is far beyond what one aggregator serves.
const maxTeachers = 1_000_000

// Validate reports every field that cannot work.
func (s *Spec) Validate() error {
	var errs config.Problems
	need := errs.Need
	if err := config.CheckName(s.Name); err != nil {
		need(false, "name: %w", err)
	}
	if err := runspec.CheckPurpose(s.Purpose); err != nil {
		errs = append(errs, err)
	}
	need(s.Schema != "", "schema: missing; give the path of the public schema.yaml")
	if _, err := privacy.NewBudget(s.Privacy.Epsilon, meaning.StrongDelta); err != nil {
		errs = append(errs, fmt.Errorf("privacy: %w", err))
	}
	if s.Privacy.Delta == byRecords {
		need(false, "privacy.delta: missing; set it well below one over the public number of privacy units, or set "+
			"that number in privacy.records (do not count units in the data)")
	} else if err := privacy.CheckDelta(s.Privacy.Delta); err != nil {
		errs = append(errs, fmt.Errorf("privacy: %w", err))
	}
	if d := s.Privacy.Dataset; d != nil {
		if _, err := privacy.NewBudget(d.Epsilon, cmp.Or(d.Delta, s.Privacy.Delta)); err != nil {
			errs = append(errs, fmt.Errorf("privacy.dataset: %w", err))
		}
		need(d.Epsilon >= s.Privacy.Epsilon && (d.Delta == 0 || d.Delta >= s.Privacy.Delta),
			"privacy.dataset: (%v, %v) is less than the run's (%v, %v); it must cover this and later runs together",
			d.Epsilon, d.Delta, s.Privacy.Epsilon, s.Privacy.Delta)
	}
	need(s.Privacy.Records >= 0, "privacy.records: %d is below 0; give the public number of units, or leave it out",
		s.Privacy.Records)
	need(s.Privacy.Unit != "", "privacy.unit: empty; use record or the schema's unit column")
	if err := privacy.CheckOverlap(s.Privacy.Overlap); err != nil {
		errs = append(errs, fmt.Errorf("privacy.%w", err))
	}
	need(s.Privacy.Guarantee == "data-independent", "privacy.guarantee: %q is not available; use data-independent",
		s.Privacy.Guarantee)
	need(s.Teachers != 0, "teachers: missing; give the total number of all nodes' teachers (teacher.yaml), which the "+
		"quorum is a share of")
	need(s.Teachers >= 0 && s.Teachers <= maxTeachers, "teachers: %d is not between 1 and %d", s.Teachers, maxTeachers)
	p, available := pipelines.Named(s.Pipeline)
	need(available, "pipeline: %q is not available; use %s", s.Pipeline, either(pipelines.Names(nil)))
	errs = append(errs, s.validateWarm(p)...)
	errs = append(errs, s.validateStages()...)
	need(s.Release.Rows >= 1 && s.Release.Rows <= pipeline.MaxRows,
		"release.rows: %d is not between 1 and %d; draw more with the model later", s.Release.Rows, pipeline.MaxRows)
	need(s.Release.Format == tabular.CSV || s.Release.Format == tabular.Parquet,
		"release.format: %q is not available; use csv or parquet", s.Release.Format)
	need(s.Evaluate.HoldOut >= 0 && s.Evaluate.HoldOut <= 0.5,
		"evaluate.hold_out: %v is not a share from 0 to 0.5 of the units", s.Evaluate.HoldOut)
	need(s.Evaluate.Train == "" || s.Evaluate.Test != "",
		"evaluate.train: set without evaluate.test; also give real test rows")
	need(s.Evaluate.CoinFlips == "" || s.Evaluate.Test != "",
		"evaluate.coin_flips: set without evaluate.test; also give real test rows")
	if _, err := classify.Named(s.Evaluate.ModelNames()...); err != nil {
		errs = append(errs, fmt.Errorf("evaluate.models: %w, or all", err))
	}
	errs = append(errs, s.validateData()...)
	errs = append(errs, s.validateAggregation())
	errs = append(errs, s.validateStudy()...)
	for _, name := range slices.Sorted(maps.Keys(s.Sections)) {
		errs = append(errs, s.Sections[name].Validate())
	}
	return errors.Join(errs...)
}

// validateWarm reports warm starts that the run's pipeline does not support.
func (s *Spec) validateWarm(p pipeline.Pipeline) (errs []error) {
	var fields []string
	for _, start := range pipelines.Warm() {
		share := start.Warm.Share(s.Sections[start.Warm.Section])
		switch {
		case share.Value <= 0:
		case s.Pipeline == start.Name:
			errs = append(errs, fmt.Errorf("%s: %v is for GANs, and pipeline %s needs no warm start; leave it out",
				share.Field, share.Value, s.Pipeline))
		case !p.TakesWarm:
			errs = append(errs, fmt.Errorf("%s: %v is for GANs, and pipeline %s takes no warm start; leave it out",
				share.Field, share.Value, s.Pipeline))
		default:
			fields = append(fields, share.Field)
		}
	}
	if len(fields) > 1 {
		errs = append(errs, fmt.Errorf("%s: a run has one warm start; leave out the others",
			strings.Join(fields, ", ")))
	}
	return errs
}

// WarmStart is the pipeline whose release replaces the class counts, and the option for its share of epsilon: 0
// for none, -1 to choose it.
func (s *Spec) WarmStart() (of pipeline.Pipeline, share plan.Share) {
	if p, _ := pipelines.Named(s.Pipeline); !p.TakesWarm {
		return of, share
	}
	for _, start := range pipelines.Warm() {
		if set := start.Warm.Share(s.Sections[start.Warm.Section]); set.Value > 0 || set.Value < 0 && share.Value == 0 {
			of, share = start, set
		}
	}
	return of, share
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
			errs = append(errs, fmt.Errorf("data[%d].site: %q appears twice; give each site one entry", i, d.Site))
		}
		if d.File == "" {
			errs = append(errs, fmt.Errorf("data[%d].file: missing; give the path of the site's CSV or idx file", i))
		}
		if !(d.Share > 0 && d.Share <= 1) {
			errs = append(errs, fmt.Errorf("data[%d].share: %v is not above 0 and at most 1", i, d.Share))
		}
		switch {
		case d.SortedBy == "":
		case d.SortedBy != sortedByUnit:
			errs = append(errs, fmt.Errorf("data[%d].sorted_by: %q is unknown; use %s, or leave it out", i,
				d.SortedBy, sortedByUnit))
		case !d.Stream || s.Privacy.Unit == partition.UnitRecord:
			errs = append(errs, fmt.Errorf("data[%d].sorted_by: only for streamed files whose unit is a column; set "+
				"stream and privacy.unit, or leave it out", i))
		}
		sites[d.Site] = true
	}
	return errs
}

// missing reports files that do not exist. It only adds to other errors: runs of a cluster and finished runs need
// no files.
func (s *Spec) missing() (errs []error) {
	for i, d := range s.Data {
		files, err := tabular.Files(d.File)
		for _, file := range files {
			if _, gone := os.Stat(file); gone != nil && err == nil {
				err = fmt.Errorf("%s: %w", file, partition.WithoutPath(gone))
			}
		}
		if err != nil && d.File != "" {
			errs = append(errs, fmt.Errorf("data[%d].file: %w; correct the path", i, err))
		}
	}
	return errs
}

// CheckPortable refuses fields that name files of one machine.
func (s *Spec) CheckPortable() error {
	const afterwards = "compare later with conclave report, on the machine with the real rows"
	var errs []error
	for _, f := range []struct {
		field, fix string
		set        bool
	}{
		{"data", "the nodes of a cluster have the data", len(s.Data) > 0},
		{"evaluate.test", afterwards, s.Evaluate.Test != ""},
		{"evaluate.train", afterwards, s.Evaluate.Train != ""},
		{"evaluate.coin_flips", "compare later with conclave report, on the machine with the other rows",
			s.Evaluate.CoinFlips != ""},
	} {
		if f.set {
			errs = append(errs, fmt.Errorf("%s: files of this machine are not available to a queued run; leave it "+
				"out: %s", f.field, f.fix))
		}
	}
	return errors.Join(errs...)
}
