package aggregator

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/study"
)

// studies loads the studies of all datasets, by dataset name, and reports every mismatch between a dataset and its
// study.
func (c Config) studies() (map[string]*study.Block, error) {
	blocks := map[string]*study.Block{}
	var problems config.Problems
	for i, d := range c.Datasets {
		if d.Study == "" {
			continue
		}
		of, text, err := study.Read(d.Study)
		if err != nil {
			problems.Need(false, "datasets[%d].study: %w", i, err)
			continue
		}
		problems = append(problems, d.fits(of, fmt.Sprintf("datasets[%d]", i))...)
		if blocks[d.Name], err = of.Block(text); err != nil {
			problems.Need(false, "datasets[%d].study: %w", i, err)
		}
	}
	return blocks, errors.Join(problems...)
}

// fits reports where the dataset differs from its study; at names it.
func (d DatasetConfig) fits(of *study.Study, at string) (errs config.Problems) {
	need := func(ok bool, field, format string, args ...any) {
		errs.Need(ok, "%s.%s: %s; correct it, or name another study.yaml", at, field, fmt.Sprintf(format, args...))
	}
	need(d.Name == of.Dataset, "name", "study %s is for dataset %q, and this is %q", of.Name, of.Dataset, d.Name)
	need(d.Unit == of.Unit, "unit", "study %s protects unit %q, and the dataset %q", of.Name, of.Unit, d.Unit)
	need(max(1, d.Overlap) == of.Overlap, "overlap", "study %s has %d, and the dataset has %d", of.Name,
		of.Overlap, max(1, d.Overlap))
	need(d.Budget.Epsilon <= of.Budget.Epsilon && d.Budget.Delta <= of.Budget.Delta, "budget",
		"(%v, %v) exceeds that of study %s, (%v, %v)", d.Budget.Epsilon, d.Budget.Delta, of.Name,
		of.Budget.Epsilon, of.Budget.Delta)
	others := slices.DeleteFunc(slices.Clone(d.Students), func(name string) bool {
		return slices.Contains(of.Students, name)
	})
	need(len(d.Students) > 0 && len(others) == 0, "students", "%q may submit runs, but study %s lists %s",
		strings.Join(d.Students, ", "), of.Name, strings.Join(of.Students, ", "))
	if err := d.fitsSchema(config.Resolve(d.Study, of.Schema)); err != nil {
		need(false, "schema", "%v", err)
	}
	return errs
}

// fitsSchema compares the dataset's schema with the one next to the study. An aggregator that has only the hash has
// no file to compare.
func (d DatasetConfig) fitsSchema(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && d.SchemaSHA256 != "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the study's schema cannot be read: %w", err)
	}
	record, err := d.record()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	if hash := hex.EncodeToString(sum[:]); hash != record.SchemaSHA256 {
		return fmt.Errorf("the dataset's schema has SHA-256 %s, but the study's, %s, has "+
			"%s", record.SchemaSHA256, path, hash)
	}
	return nil
}
