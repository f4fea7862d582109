package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Record is what a run's state folder stores about it, for later stages.
type Record struct {
	Run     string `json:"run"` // path of the run.yaml
	Dataset string `json:"dataset"`
	// Name is the name of the run, or of the stages.
	Name string `json:"name"`
}

func recordPath(out string) string { return filepath.Join(StateDir(out), "run.json") }

func ReadRecord(out string) (r Record, err error) {
	raw, err := os.ReadFile(recordPath(out))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// CheckRecord refuses a folder in which another run was started.
func CheckRecord(out, name string) error {
	r, err := ReadRecord(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the output folder: %w", err)
	}
	if r.Name != "" && r.Name != name {
		return fmt.Errorf("%s has the state of run %q, but this is run %q; continue that run, or give another "+
			"folder", out, r.Name, name)
	}
	return nil
}

// WriteRecord stores which run a folder belongs to.
func WriteRecord(out string, r Record) error {
	if path, err := filepath.Abs(r.Run); err == nil {
		r.Run = path
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeText(recordPath(out), append(raw, '\n'))
}
