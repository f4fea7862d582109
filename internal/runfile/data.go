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
	Site string `yaml:"site"`
	// File is CSV, Parquet or a workbook; a folder of CSV or Parquet files or a pattern of their names; or the idx
	// file of images with that of their labels beside it.
	File string `yaml:"file"`
	// Share is the part of the file that is the site's, chosen by a hash of
	// each record. Sites that share a file get parts that do not overlap.
	// Teachers are divided in proportion to the shares. Default: 1, all. In a
	// schema with a column of role site that column says whose a record is, and
	// shares only divide the teachers.
	Share float64 `yaml:"share"`
	// Stream has the site's node read the file for each question, in place of holding its rows in memory. Only
	// pipelines whose questions are sums of all records can be asked then. Default: false.
	Stream bool `yaml:"stream"`
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

// checkShares refuses parts of a file that overlap, and files of which sites name some in common and others not.
func (s *Spec) checkShares() error {
	shares, named := map[string]float64{}, map[string]int{}
	keys := make([]string, len(s.Data))
	for i, d := range s.Data {
		key := FileKey(d.File)
		keys[i] = key
		shares[key] += d.Share
		if shares[key] > 1+1e-9 {
			return fmt.Errorf("data[%d].share: the shares of %s add up to more than 1; a record would be at two sites",
				i, d.File)
		}
		files, err := tabular.Files(d.File)
		if err != nil {
			return err
		}
		for _, file := range files {
			real := realPath(file)
			first, again := named[real]
			sheets := again && tabular.Sheet(d.File) != "" && tabular.Sheet(s.Data[first].File) != ""
			if again && !sheets && keys[first] != key {
				return fmt.Errorf("data[%d].file: %s is among the files of site %s as well; a record would be at two "+
					"sites: name the same files at both and divide them by shares, or name different ones", i, file,
					s.Data[first].Site)
			}
			if !again {
				named[real] = i
			}
		}
	}
	return nil
}

// HeldOut is the share of the units that a local run keeps out of its training: none where it names test rows, of
// images, whose few test images say little, and where a site streams: what is held out is in memory.
func (s *Spec) HeldOut(schema *partition.Schema) float64 {
	streams := slices.ContainsFunc(s.Data, func(d Data) bool { return d.Stream })
	if len(s.Data) == 0 || s.Evaluate.Test != "" || schema.Image != nil || streams {
		return 0
	}
	return s.Evaluate.HoldOut
}

// FileKey is the same for all paths of one table, so that no record gets to two
// sites because its file, or its files, were named in two ways.
func FileKey(path string) string {
	files, err := tabular.Files(path)
	if err != nil {
		return path // which is an error where it is read
	}
	real := make([]string, len(files))
	for i, file := range files {
		real[i] = realPath(file)
	}
	return strings.Join(append(real, tabular.Sheet(path)), "\x00") // which no path has in it
}

func realPath(file string) string {
	if absolute, err := filepath.Abs(file); err == nil {
		file = absolute
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	return file // of a file that is not there, which is an error later
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
		file := FileKey(d.File)
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
