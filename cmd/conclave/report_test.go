package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

func TestInterruptedReportSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	test, err := filepath.Abs(filepath.Join("..", "..", "examples", "flchain", "test.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	err = makeReport(ctx, []string{"--from", finishedRun(t)(), "--out", out, "--test", test})
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted") {
		t.Errorf("the error is %v", err)
	}
}
