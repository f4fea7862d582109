package runfile

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const studyText = `name: heart
title: Heart failure in three hospitals
purpose: Synthetic rows for teaching
permit: IRB 2026-114
contact: Dr. Berg, +49 30 1234
expires: 2199-06-30
dataset: d
schema: schema.yaml
budget: {epsilon: 2, delta: 1e-5}
pipelines: [marginals]
masked: true
aggregator: {hosts: [localhost]}
sites: [north, south]
students: [lab]
`

const ofStudy = good + `study: study.yaml
aggregation:
  masked: true
  members:
    - {site: north, key: "0101010101010101010101010101010101010101010101010101010101010101"}
    - {site: south, key: "0202020202020202020202020202020202020202020202020202020202020202"}
`

func loadOf(t *testing.T, run, study string) (*Spec, error) {
	dir := write(t, map[string]string{"schema.yaml": schemaText, "run.yaml": run, "study.yaml": study})
	return Load(filepath.Join(dir, "run.yaml"))
}

func TestARunIsOfAStudy(t *testing.T) {
	s := testkit.Value(loadOf(t, ofStudy, studyText))
	if b := s.StudyBlock(); b.Permit != "IRB 2026-114" || b.SHA256 != study.Hash([]byte(studyText)) ||
		s.Purpose != "Synthetic rows for teaching" {
		t.Errorf("block %+v, purpose %q", b, s.Purpose)
	}
	own := testkit.Value(loadOf(t, ofStudy+"purpose: a figure\n", studyText))
	if own.Purpose != "a figure" {
		t.Errorf("purpose %q", own.Purpose)
	}
	if s := testkit.Value(load(t, good)); s.StudyBlock() != nil || s.Purpose != "" {
		t.Errorf("a run of no study has %v", s.StudyBlock())
	}
	testkit.Must(t, s.CheckDataset("d"))
	if err := s.CheckDataset("other"); err == nil || !strings.Contains(err.Error(), `is for dataset "d"`) {
		t.Errorf("another dataset: %v", err)
	}
}

func TestWhatAStudyDoesNotAllow(t *testing.T) {
	wrong := strings.NewReplacer("epsilon: 1,", "epsilon: 3, unit: patient,", "site: south", "site: east").Replace(
		ofStudy) + "pipeline: embed\n"
	_, err := loadOf(t, wrong, studyText)
	for _, want := range []string{"pipeline: study heart (", "allows marginals, not \"embed\"",
		"privacy.unit: study heart", "(2, 1e-05) for all its runs", `"east" is not a site of`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one that says %q", err, want)
		}
	}
	if _, err := loadOf(t, good+"study: study.yaml\n", studyText); err == nil ||
		!strings.Contains(err.Error(), "aggregation.masked: runs of study heart") {
		t.Errorf("without masks: %v", err)
	}
	if _, err := load(t, good+"study: none.yaml\n"); err == nil || !strings.Contains(err.Error(), "correct the path") {
		t.Errorf("no study.yaml: %v", err)
	}
	s := testkit.Value(loadOf(t, ofStudy, studyText))
	other := testkit.Value(partition.ParseSchema([]byte(strings.Replace(schemaText, "120", "99", 1))))
	if err := s.CheckStudy(other, []string{"quality"}); err == nil ||
		!strings.Contains(err.Error(), `does not allow stage "quality"`) ||
		!strings.Contains(err.Error(), "schema: it is not the schema of study heart") {
		t.Errorf("another schema and a stage: %v", err)
	}
}
