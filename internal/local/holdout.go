package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// A local run that names no test rows keeps a public share of the privacy units out of the training, for the
// report. The hash that divides files among sites chooses them, so that all rows of a unit are on one side. The
// share is stored in the cluster's state, since nodes must find the same rows when the run resumes.
const heldOutFile = "held-out.json"

type heldOut struct {
	Share float64 `json:"share"`
}

// heldShare is the share that a folder's run holds out: the stored one, or that of the run.yaml for a new run.
func heldShare(state string, spec *runfile.Spec, schema *partition.Schema, wanted bool) (float64, error) {
	raw, err := os.ReadFile(filepath.Join(state, heldOutFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(state, "etcd")); err == nil || !wanted {
			return 0, nil // the run began without a hold-out
		}
		return spec.HeldOut(schema), nil
	}
	var h heldOut
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	if err == nil && !(h.Share >= 0 && h.Share < 1) {
		err = fmt.Errorf("a share of %v", h.Share)
	}
	if err != nil {
		return 0, fmt.Errorf("the hold-out of the run in %s: %w; start in another folder", state, err)
	}
	return h.Share, nil
}

// keepHeldShare stores the share that a run holds out.
func keepHeldShare(state string, share float64) error {
	raw, err := json.Marshal(heldOut{share})
	if err == nil {
		err = os.WriteFile(filepath.Join(state, heldOutFile), append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the hold-out: %w", err)
	}
	return nil
}

// divided reads the files of the sites and divides their rows into training and held-out rows. parts are the
// sites' parts of the files, as nodes read them.
func divided(spec *runfile.Spec, schema *partition.Schema, parts [][2]float64, share float64) (results.HeldOut, error) {
	h := results.HeldOut{Share: share, Test: partition.NewTable(schema), Train: partition.NewTable(schema)}
	seen := map[string]bool{}
	var wrong siteErrors
	for i, d := range spec.Data {
		t, err := tabular.Read(schema, d.File, tabular.Options{})
		if err != nil {
			wrong.add(d.Site, err)
			continue
		}
		positions := partition.SharePositions(t)
		site := schema.SiteColumn()
		bySite := site >= 0
		trained, held := h.Train.Len(), false
		for row := range t.Len() {
			cells := t.Cells(row)
			if bySite && schema.Columns[site].Categories[int(cells[site])] != d.Site {
				continue
			}
			switch at := positions[row]; {
			case at >= parts[i][0] && at < parts[i][1]:
				h.Train.Push(cells, t.Unit(row))
			case at >= 1-share:
				if held = true; bySite || !seen[runfile.FileKey(d.File)] {
					h.Test.Push(cells, t.Unit(row))
				}
			}
		}
		seen[runfile.FileKey(d.File)] = true
		if h.Train.Len() == trained && held {
			wrong.add(d.Site, &partition.InputError{File: d.File,
				Problem: fmt.Sprintf("no row remains for the training, because a public hash holds out %g%% of the "+
					"privacy units for the report", 100*share),
				Fix: "add rows, name test rows with evaluate.test in run.yaml, or set evaluate.hold_out: 0 there"})
		}
	}
	return h, errors.Join(wrong...)
}
