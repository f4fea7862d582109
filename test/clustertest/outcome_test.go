package clustertest

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Each run is a line, added to what the file has.
func TestOutcomesAreLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.jsonl")
	first := Outcome{Group: "faults", Case: "2 faults, 4 nodes", Seed: 7, Figures: map[string]float64{"releases": 9}}
	testkit.Must(t, first.AppendTo(file))
	testkit.Must(t, Outcome{Failed: "runs do not end"}.AppendTo(file))
	testkit.Must(t, first.AppendTo("")) // none was named
	var lines []map[string]any
	for line := range bytes.Lines(testkit.Read(t, file)) {
		var o map[string]any
		testkit.Must(t, json.Unmarshal(line, &o))
		lines = append(lines, o)
	}
	if len(lines) != 2 || lines[0]["seed"] != 7.0 || lines[0]["failed"] != nil || lines[0]["machine"] == "" ||
		lines[1]["failed"] != "runs do not end" {
		t.Errorf("the file has %v", lines)
	}
}
