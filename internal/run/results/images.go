package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/images"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// realImages are the images with which the report compares; nil if none are named. NOT PRIVATE.
type realImages struct {
	Test, Train, CoinFlips *idx.Images
}

// loadRealImages is LoadReal for images, and refuses too few of them.
func loadRealImages(e Evaluate, schema *partition.Schema) (realImages, error) {
	least := 4 // half of them train the classifier that judges
	if e.Train != "" {
		least = 2
	}
	var r realImages
	for _, f := range []struct {
		path  string
		into  **idx.Images
		least int
	}{{e.Test, &r.Test, least}, {e.Train, &r.Train, 2}, {e.CoinFlips, &r.CoinFlips, 2}} {
		if f.path == "" {
			continue
		}
		x, err := tabular.ReadImages(schema, f.path, tabular.Options{})
		if err != nil {
			return r, fmt.Errorf("images for the report: %w", err)
		}
		if x.Len() < f.least {
			return r, fmt.Errorf("images for the report: %s: fewer than %d images cannot be compared; give more",
				f.path, f.least)
		}
		*f.into = x
	}
	return r, nil
}

// writeImages writes synthetic images in the format of the real ones, and a picture of some.
func writeImages(out map[string]string, synthetic *partition.Table) error {
	x, err := idx.FromTable(synthetic)
	if err != nil {
		return err
	}
	images, labels, err := idx.Encode(x, true)
	if err != nil {
		return err
	}
	sheet, err := samplesOf(x, synthetic.Schema())
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{"images", images}, {"labels", labels}, {"samples", sheet}} {
		if err := WriteFile(out[f.name], func(b *bytes.Buffer) error {
			_, err := b.Write(f.content)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// samplesPerClass is the number of images of a class on a contact sheet.
const samplesPerClass = 10

// samplesOf draws a contact sheet that fits in a report, with fewer samples of a class if images are large. Even
// one sample of each class may be too large.
func samplesOf(x *idx.Images, schema *partition.Schema) ([]byte, error) {
	for n := min(samplesPerClass, mostOfAClass(x)); ; n /= 2 {
		sheet, err := picture.ContactSheet(x, len(schema.Classes()), n)
		tooLarge := errors.Is(err, picture.ErrSheetTooLarge) || err == nil && len(sheet) > picture.MaxSheetBytes
		if !tooLarge || n <= 1 {
			return sheet, err
		}
	}
}

// mostOfAClass is the number of images of the largest class.
func mostOfAClass(x *idx.Images) (most int) {
	count := map[int]int{}
	for _, class := range x.Classes {
		count[class]++
		most = max(most, count[class])
	}
	return most
}

// fillImages is fillPage for images: pixels have no histograms worth a look.
func fillImages(ctx context.Context, page *report.Page, synthetic *partition.Table, real realImages) error {
	x, err := idx.FromTable(synthetic)
	if err != nil {
		return err
	}
	schema := synthetic.Schema()
	if err := addSheet(page, "synthetic samples of each class", x, schema, false); err != nil || real.Test == nil {
		return err
	}
	if err := addSheet(page, "real test images of each class", real.Test, schema, true); err != nil {
		return err
	}
	if page.Evaluation, err = images.Evaluate(ctx, images.Input{
		Synthetic: x, Weight: synthetic.Weights(), Test: real.Test, Train: real.Train, CoinFlips: real.CoinFlips,
		Classes: len(schema.Classes()),
	}); err != nil {
		return fmt.Errorf("compare with real images: %w", err)
	}
	return nil
}

func addSheet(page *report.Page, name string, x *idx.Images, schema *partition.Schema, real bool) error {
	sheet, err := samplesOf(x, schema)
	if err != nil {
		return err
	}
	if len(sheet) > picture.MaxSheetBytes {
		if note := "The images are too large for this page."; !slices.Contains(page.Notes, note) {
			page.Notes = append(page.Notes, note)
		}
		return nil
	}
	page.Images = append(page.Images, picture.Sheet{Name: name, PNG: sheet, Real: real})
	return nil
}

// imageUtility is the result that a run of images prints at its end. NOT PRIVATE.
func imageUtility(e *evaluate.Evaluation) UtilityResult {
	r := UtilityResult{Classifier: "cnn", SyntheticAccuracy: &e.Images.AccuracySynthetic}
	if e.Rows.Train > 0 {
		r.RealAccuracy = &e.Images.AccuracyReal
	}
	return r
}
