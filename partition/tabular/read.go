package tabular

import (
	"strings"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

// Read reads the rows of a file: Parquet (detected by content, or by a name that ends in .parquet), a sheet of a
// workbook (see [ReadXLSX]), CSV, or idx images if the schema is for images. For images, path is the image file,
// and the labels are beside it; see LabelsPath. A name that ends in .csv or .csv.gz is always CSV. idx files use
// only the share among the options.
//
// A folder of CSV or Parquet files, or a pattern of their names, is one table with the rows of all [Files]. It
// equals that of a single file. Errors are *InputError.
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

// ofParts reports whether a path names files that are parts of one table.
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

// ReadImages is Read for callers that need images: it makes no table from idx files.
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
