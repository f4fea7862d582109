package rows

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/tabular"
)

type sampleKind int

const (
	sampleCSV sampleKind = iota
	sampleParquet
	samplePNG
	sampleIDX
)

func kindOfSample(path string) (sampleKind, error) {
	base := strings.ToLower(filepath.Base(path))
	switch {
	case path == "-" || strings.HasSuffix(base, ".csv"):
		return sampleCSV, nil
	case strings.HasSuffix(base, ".parquet"):
		return sampleParquet, nil
	case strings.HasSuffix(base, ".png"):
		return samplePNG, nil
	case strings.Contains(filepath.Base(path), "images") && !strings.HasSuffix(base, ".csv.gz"):
		return sampleIDX, nil
	default:
		return 0, fmt.Errorf("--out %s: the model makes images; give a .csv, .parquet or .png file, or an idx file "+
			"like more-images-idx3-ubyte.gz (its labels are written next to it)", path)
	}
}

const sheetLine = 20

// encodeSample returns the files of a sample: one, or for idx the images and their labels, gzipped if the name says
// so.
func encodeSample(t *partition.Table, kind sampleKind, name string) ([][]byte, error) {
	if form, ok := map[sampleKind]string{sampleCSV: tabular.CSV, sampleParquet: tabular.Parquet}[kind]; ok {
		var b bytes.Buffer
		err := tabular.Write(&b, form, t, nil)
		return [][]byte{b.Bytes()}, err
	}
	x, err := idx.FromTable(t)
	if err != nil {
		return nil, err
	}
	if kind == sampleIDX {
		images, labels, err := idx.Encode(x, strings.HasSuffix(strings.ToLower(name), ".gz"))
		return [][]byte{images, labels}, err
	}
	sheet, err := picture.FullSheet(x, len(t.Schema().Classes()), min(sheetLine, x.Len()))
	if errors.Is(err, picture.ErrSheetTooLarge) {
		return nil, fmt.Errorf("--out %s: %d images are too many for one .png file; use fewer --rows, or write .csv "+
			"or idx", name, x.Len())
	}
	return [][]byte{sheet}, err
}
