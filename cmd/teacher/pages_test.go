package main

import (
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/cli/clitest"
)

// Pages show commands and flags that there are.
func TestPagesShowCommandsThatThereAre(t *testing.T) {
	clitest.Documented(t, filepath.Join("..", ".."), command())
}
