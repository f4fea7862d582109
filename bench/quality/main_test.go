package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
)

func TestTheFiguresSayThatTheyAreNotPrivate(t *testing.T) {
	figures := []*figure{{Privacy: evaluate.NotPrivate, Classifier: "adaboost", AUROC: []float64{0.5}}}
	var text strings.Builder
	if err := table(&text, figures); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), evaluate.NotPrivate+"\n") {
		t.Errorf("the table begins %q", text.String())
	}
	if raw, err := json.Marshal(figures); err != nil || !strings.Contains(string(raw), "NOT PRIVATE") {
		t.Errorf("%s, %v", raw, err)
	}
}
