package runfile

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Data is the data of one site in a local run.
type Data struct {
	// Site is the name of the site; each name appears once. If the schema has a column of role site, the site gets only
	// the rows that name it. Required.
	Site string `yaml:"site"`
	// File is a CSV file, plain or gzipped; a Parquet file (docs/data-files.md#parquet); a sheet of an .xlsx workbook
	// (docs/data-files.md#workbooks); a folder or a pattern of parts (docs/data-files.md#parts); or the idx file of
	// images with that of their labels next to it (docs/schema.md#images). Required.
	File string `yaml:"file"`
	// Share is the part of the file that belongs to this site. A hash of each record, or of its unit column, chooses
	// it, so that one file can play several sites. Shares of one file follow each other and may add up to at most
	// `privacy.overlap`, by default 1. Teachers are divided among the sites by these shares. If the schema has a column
	// of role `site`, that column decides instead, all sites may name one file, and shares only divide the teachers.
	Share float64 `yaml:"share"`
	// Stream has the site's node read the file for each question, in place of holding its rows in memory. Boosting and
	// weights by regression cannot be asked then. Default: false.
	Stream bool `yaml:"stream"`
	// SortedBy says that the file is sorted: with `unit` by the unit column, as for a node
	// (docs/config-teacher.md#fields-of-the-process). It needs `stream` and a unit column, and is checked. Default:
	// none.
	SortedBy string `yaml:"sorted_by"`
}

// sortedByUnit says that the rows of a file are sorted by the unit column.
const sortedByUnit = "unit"

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

// checkShares refuses shares of a file that put a record at more sites than privacy.overlap allows.
func (s *Spec) checkShares() error {
	shares, named := map[string]float64{}, map[string][]int{}
	for i, d := range s.Data {
		key := FileKey(d.File)
		shares[key] += d.Share
		if shares[key] > float64(s.Privacy.Overlap)+1e-9 {
			return fmt.Errorf("data[%d].share: the shares of %s add up to more than %d; lower them, or raise "+
				"privacy.overlap: %d", i, d.File, s.Privacy.Overlap, s.Privacy.Overlap)
		}
		if from, to := part(shares[key]-d.Share, d.Share); to > 1 {
			return fmt.Errorf("data[%d].share: %v of %s starts at %.6g and exceeds the file; change the earlier "+
				"shares to add up to 1", i, d.Share, d.File, from)
		}
		files, err := tabular.Files(d.File)
		if err != nil {
			return err
		}
		for _, file := range files {
			real := realPath(file)
			other := slices.IndexFunc(named[real], func(j int) bool {
				sheets := tabular.Sheet(d.File) != "" && tabular.Sheet(s.Data[j].File) != ""
				return !sheets && FileKey(s.Data[j].File) != key
			})
			if other >= 0 && len(named[real]) >= s.Privacy.Overlap {
				return fmt.Errorf("data[%d].file: %s is also a file of site %s, so a record would be at more sites "+
					"than privacy.overlap: %d; use the same files with shares at both sites, or different "+
					"files", i, file, s.Data[named[real][other]].Site, s.Privacy.Overlap)
			}
			named[real] = append(named[real], i)
		}
	}
	return nil
}

// part returns the part of a file that a share covers after the shares before it. At the end of the file it
// wraps around to the beginning.
func part(used, share float64) (from, to float64) {
	if from = used - math.Floor(used+1e-9); from < 0 {
		from = 0
	}
	if to = from + share; math.Abs(to-1) <= 1e-9 {
		to = 1
	}
	return from, to
}

// HeldOut is the share of the units that a local run holds out of its training. It is 0 if the run names test
// rows, if a site streams, since held-out rows are in memory, and for images, since a few test images say little.
func (s *Spec) HeldOut(schema *partition.Schema) float64 {
	streams := slices.ContainsFunc(s.Data, func(d Data) bool { return d.Stream })
	if len(s.Data) == 0 || s.Evaluate.Test != "" || schema.Image != nil || streams {
		return 0
	}
	return s.Evaluate.HoldOut
}

// FileKey is equal for all paths of one table, so that no record gets to two sites because a file has two
// names.
func FileKey(path string) string {
	files, err := tabular.Files(path)
	if err != nil {
		return path // reading the file reports the error
	}
	real := make([]string, len(files))
	for i, file := range files {
		real[i] = realPath(file)
	}
	return strings.Join(append(real, tabular.Sheet(path)), "\x00") // no path contains this byte
}

func realPath(file string) string {
	if absolute, err := filepath.Abs(file); err == nil {
		file = absolute
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	return file // a missing file is reported later
}

// Sites returns the part [from, to) of the file for each entry of Data; parts of one file follow each other, and
// overlap only once they have used up all of it. If the schema has a site column, each part is the whole file,
// and each site takes its own records.
func (s *Spec) Sites(schema *partition.Schema) [][2]float64 {
	used := map[string]float64{}
	parts := make([][2]float64, len(s.Data))
	for i, d := range s.Data {
		if parts[i] = [2]float64{0, 1}; schema.SiteColumn() >= 0 {
			continue
		}
		file := FileKey(d.File)
		parts[i][0], parts[i][1] = part(used[file], d.Share)
		used[file] += d.Share
	}
	return parts
}
