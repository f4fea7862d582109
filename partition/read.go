package partition

import (
	"path/filepath"
	"strings"
)

// Read reads the rows of a file: Parquet (told by its content, or a name that ends in
// .parquet), CSV, or images in the idx format where the
// schema is one of images; path then names the file of images, and their labels
// lie beside it, see LabelsPath. A file whose name ends in .csv or .csv.gz is
// CSV also where the schema is one of images. Of the options only a share means
// anything to idx files. Errors are *InputError.
func Read(s *Schema, path string, o ReadOptions) (*Table, error) {
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
func ReadImages(s *Schema, path string, o ReadOptions) (*Images, error) {
	if isCSV(path) || isParquet(path) {
		t, err := Read(s, path, o)
		if err != nil {
			return nil, err
		}
		return t.Images()
	}
	if err := o.check(s); err != nil {
		return nil, &InputError{File: path, Problem: err.Error()}
	}
	labels, err := LabelsPath(path)
	if err != nil {
		return nil, err
	}
	x, err := ReadIDX(s, path, labels)
	if err != nil {
		return nil, err
	}
	if x.Len() == 0 {
		return nil, &InputError{File: path, Problem: "there is no image in it", Mend: "check that the whole file was copied"}
	}
	return x.selectRows(s, path, o)
}

// LabelsPath is where the labels of a file of images lie: beside it, under its
// name with labels for the last images in it, and idx1 for idx3 or idx4. Names
// are like train-images-idx3-ubyte.gz.
func LabelsPath(images string) (string, error) {
	dir, base := filepath.Split(images)
	at := strings.LastIndex(base, "images")
	if at < 0 {
		return "", &InputError{
			File: images, Problem: `there is no "images" in the file's name, so that its labels cannot be found`,
			Mend: "name the files like train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz, or a CSV file like train.csv",
		}
	}
	base = base[:at] + "labels" + base[at+len("images"):]
	if at := max(strings.LastIndex(base, "idx3"), strings.LastIndex(base, "idx4")); at >= 0 {
		base = base[:at] + "idx1" + base[at+len("idx1"):]
	}
	return dir + base, nil
}

func isCSV(path string) bool {
	return hasSuffixFold(path, ".csv") || hasSuffixFold(path, ".csv.gz")
}

func hasSuffixFold(path, suffix string) bool { return strings.HasSuffix(strings.ToLower(path), suffix) }
