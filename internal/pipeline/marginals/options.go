package marginals

import "github.com/conclave-dp/conclave/internal/pipeline"

// Pipeline registers this pipeline.
var Pipeline = pipeline.Pipeline{
	Name:            "marginals",
	Options:         pipeline.Defaults(DefaultOptions),
	New:             newTraining,
	Asks:            []string{columnsKind, pairsKind},
	Kinds:           kinds,
	Model:           modelKind,
	TablesOnly:      true,
	NoDiscriminator: "it fits tables and trains no network",
	Words:           pipeline.Words{Answers: "counts of cells", Baseline: "noise alone"},
}

// Options are the section `marginals:` of a run.yaml. This section configures `pipeline: marginals`; see
// docs/marginals.md.
type Options struct {
	// Quorum is the share of `teachers` that a round needs.
	Quorum float64 `yaml:"quorum"`
	// Deadline is how many seconds a round waits for the other nodes, counted from when a quorum was asked.
	Deadline float64 `yaml:"deadline"`
	// Columns is the share of the squared budget that the first sum costs; the other two sums divide the rest equally.
	// More gives better cells and better single columns, less gives better pairs: 0 takes 0.45 if the schema has no
	// classes and `privacy.records` is at most 2,000, otherwise 0.3.
	Columns float64 `yaml:"columns"`
	// Fine is the largest number of cells that a number has in the first sum. Noise hides small cells if records are
	// few: 0 takes 64 if `privacy.records` is at most 2,000, otherwise 256, and at least `cells`.
	Fine int `yaml:"fine"`
	// Cells is the largest number of cells that a number has in pairs, at most `fine`. There are fewer if there are
	// few records for the noise, and at most 8 in a wide table.
	Cells int `yaml:"cells"`
	// Size is the largest number of cells that all tables of the model have together. With more, more pairs fit in,
	// and the fit takes longer. The tables of the hidden column of a wide table (docs/marginals-wide.md) do not
	// count.
	Size int `yaml:"size"`
	// Steps is the largest number of steps of each fit.
	Steps int `yaml:"steps"`
}

const (
	// manyCells and fewCells are the cells of a number in the first sum with many and with few records.
	manyCells = 256
	fewCells  = 64
	// mostColumns and fewColumns are the shares of the first sum. With few records and no classes to predict, noise in
	// single columns limits the rows, so these get more.
	mostColumns = 0.3
	fewColumns  = 0.45
	// fewRecords is the largest public number of records that counts as few.
	fewRecords = 2_000
)

// chosen returns the options with the share and the cells of the first sum chosen, if they are unset. The number of
// records is the public one of the run, 0 if it has none; a schema without classes has 1.
func (o Options) chosen(records, classes int) Options {
	few := records > 0 && records <= fewRecords
	if o.Columns == 0 {
		o.Columns = mostColumns
		if few && classes == 1 {
			o.Columns = fewColumns
		}
	}
	if o.Fine == 0 {
		o.Fine = manyCells
		if few {
			o.Fine = fewCells
		}
		o.Fine = max(o.Fine, o.Cells)
	}
	return o
}

// DefaultOptions choose the share and the cells of the first sum by the number of records.
func DefaultOptions() Options {
	return Options{Quorum: 0.9, Deadline: 60, Cells: 32, Size: 1 << 17, Steps: 300}
}

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("marginals")
	c.Rounds(o.Quorum, o.Deadline)
	if o.Columns != 0 {
		c.Between("columns", o.Columns, 0.01, 0.9)
	}
	if o.Fine != 0 {
		c.Between("fine", float64(o.Fine), 2, 4096)
		c.Check(o.Cells <= o.Fine, "cells: %d are more than the %d of fine; lower it", o.Cells, o.Fine)
	}
	c.Between("cells", float64(o.Cells), 2, 256)
	c.Between("size", float64(o.Size), 16, 1<<24)
	c.Between("steps", float64(o.Steps), 1, 100_000)
	return c.Err()
}
