package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SampleSuffix is appended to a sample's file name to name its list.
const SampleSuffix = ".manifest.json"

// Sample lists rows that were drawn from a model after its run, and the model's files. Nobody signs it.
type Sample struct {
	Rows  int    `json:"rows"`
	Files []File `json:"files"` // the written files, by names in the folder of the list
	Model []File `json:"model"` // as in the run's list: model/...
	// Run and ManifestSHA256 are those of the run's list, if it is next to the model's folder.
	Run            string `json:"run,omitempty"`
	ManifestSHA256 string `json:"manifest_sha256,omitempty"`
}

// MakeSample lists files that were drawn from the model that has these files in a folder.
func MakeSample(rows int, files []File, model string, modelFiles []string) (Sample, error) {
	s := Sample{Rows: rows, Files: files}
	for _, path := range modelFiles {
		f, err := listed(modelPrefix+filepath.Base(path), path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not all kinds of models have all files
		}
		if err != nil {
			return s, fmt.Errorf("list the model's files: %w", err)
		}
		s.Model = append(s.Model, f)
	}
	byName := func(a, b File) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(s.Model, byName)
	slices.SortFunc(s.Files, byName)
	m, raw, err := beside(model)
	if err != nil {
		return s, err
	}
	if raw != nil {
		s.Run, s.ManifestSHA256 = m.Run, sumOf(raw)
	}
	return s, s.validate()
}

// beside returns the run's list next to the folder of its model, and its text, which is nil if there is none.
func beside(model string) (m Manifest, raw []byte, err error) {
	raw, err = readFile(os.DirFS(filepath.Join(model, "..")), ManifestFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil, nil
	}
	if err == nil {
		m, err = ParseManifest(raw)
	}
	if err != nil {
		return m, nil, fmt.Errorf("the list of files next to the model: %w", err)
	}
	return m, raw, nil
}

// ReleasedRows is the number of rows that the run of a model released, from the list next to the model's
// folder; 0 if there is none.
func ReleasedRows(model string) (int, error) {
	m, _, err := beside(model)
	return m.Rows, err
}

const modelPrefix = "model/"

func (s Sample) validate() error {
	if s.Rows < 1 || len(s.Files) == 0 || len(s.Model) == 0 {
		return errors.New("it lists no rows, no files or no model")
	}
	return errors.Join(validFiles(s.Files), validFiles(s.Model))
}

// Canonical returns the only valid text of a sample's list.
func (s Sample) Canonical() ([]byte, error) {
	raw, err := json.MarshalIndent(s, "", "  ")
	return append(raw, '\n'), err
}

// CheckSample checks rows that were drawn later. It adds to the findings of a run's folder that the rows and
// the model match their list. Nothing can show that the model generated them.
func (f *Findings) CheckSample(path string) {
	if f.manifestRaw == nil {
		return // the folder's check has reported why
	}
	beside := os.DirFS(filepath.Dir(path))
	name := filepath.Base(path)
	list, err := readFile(beside, name+SampleSuffix, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it is missing: conclave sample writes it next to the rows; get it, or draw rows yourself")
	}
	var s Sample
	if err == nil {
		s, err = parse[Sample](list)
	}
	if err != nil {
		f.fail(path+SampleSuffix, err)
		return
	}
	model := slices.DeleteFunc(slices.Clone(f.manifest.Files), func(of File) bool {
		return !strings.HasPrefix(of.Name, modelPrefix)
	})
	switch {
	case !slices.ContainsFunc(s.Files, func(of File) bool { return of.Name == name }):
		err = fmt.Errorf("it does not list %s; restore the list that was written with it", name)
	case s.ManifestSHA256 != "" && s.ManifestSHA256 != sumOf(f.manifestRaw):
		err = fmt.Errorf("its rows are from run %q with another manifest; give the folder of that run", s.Run)
	case !slices.Equal(s.Model, model):
		err = errors.New("the rows were drawn from another model; give the folder of that run")
	}
	if err != nil {
		f.fail(path+SampleSuffix, err)
		return
	}
	for _, file := range s.Files {
		if err := file.Check(beside); err != nil {
			f.fail(file.Name, err)
			return
		}
	}
	f.add(path, Stated, "the person who drew "+
		"them", fmt.Sprintf("%d rows match their list, which says that they were drawn from "+
		"this run's model; nothing proves this", s.Rows))
}
