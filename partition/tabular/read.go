package tabular

import (
	"strings"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

// Read reads the rows of a file: Parquet (told by its content, or a name that ends in
// .parquet), a sheet of a workbook (see [ReadXLSX]), CSV, or images in the idx format where the
// schema is one of images; path then names the file of images, and their labels
// lie beside it, see LabelsPath. A file whose name ends in .csv or .csv.gz is
// CSV also where the schema is one of images. Of the options only a share means
// anything to idx files. A folder of CSV or Parquet files, or a pattern of their names, is one
// table of the rows of all of [Files], the same as of one file. Errors are *InputError.
func Read(s *partition.Schema, path string, o Options) (*partition.Table, error) {
	parts, err := Files(path)
	if err != nil {
		return nil, err
	}
	if ofParts(path, parts) {
		return readParts(s, path, parts, o)
	}
	return readFile(s, path, o)
}

// ofParts tells whether a path names files that are parts of its table.
func ofParts(path string, files []string) bool {
	return len(files) != 1 || files[0] != path && Sheet(path) == ""
}

func readFile(s *partition.Schema, path string, o Options) (*partition.Table, error) {
	switch archive, err := isArchive(path); {
	case err != nil:
		return nil, err
	case archive:
		return ReadXLSX(s, path, o)
	}
	if isParquet(path) {
		return ReadParquet(s, path, o)
	}
	if s.Image == nil || isCSV(path) {
		return ReadCSV(s, path, o)
	}
	x, err := ReadImages(s, path, o)
	if err != nil {
		return nil, err
	}
	return x.Table(s)
}

// ReadImages is Read for who wants images: of idx files no table is made.
func ReadImages(s *partition.Schema, path string, o Options) (*idx.Images, error) {
	parts, err := Files(path)
	if err != nil {
		return nil, err
	}
	if ofParts(path, parts) || isCSV(path) || isParquet(path) {
		t, err := Read(s, path, o)
		if err != nil {
			return nil, err
		}
		return idx.FromTable(t)
	}
	if err := o.check(s); err != nil {
		return nil, &partition.InputError{File: path, Problem: err.Error()}
	}
	labels, err := idx.LabelsPath(path)
	if err != nil {
		return nil, err
	}
	x, err := idx.Read(s, path, labels)
	if err != nil {
		return nil, err
	}
	if x.Len() == 0 {
		return nil, &partition.InputError{File: path, Problem: "there is no image in it",
			Fix: "check that the whole file was copied"}
	}
	return x.Share(s, path, o.From, o.To)
}

func isCSV(path string) bool {
	return hasSuffixFold(path, ".csv") || hasSuffixFold(path, ".csv.gz")
}

func hasSuffixFold(path, suffix string) bool { return strings.HasSuffix(strings.ToLower(path), suffix) }
