package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestInterruptedReportSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	test, err := filepath.Abs(filepath.Join("..", "..", "examples", "flchain", "test.csv.gz"))
	testkit.Must(t, err)
	c := command()
	c.SilenceErrors, c.SilenceUsage = true, true
	out := filepath.Join(t.TempDir(), "out")
	c.SetArgs([]string{"report", "--from", finishedRun(t)(), "--out", out, "--test", test})
	if err = c.ExecuteContext(ctx); err == nil || !strings.HasPrefix(err.Error(), "interrupted") {
		t.Errorf("the error is %v", err)
	}
}
