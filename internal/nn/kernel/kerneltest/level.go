// Package kerneltest has what tests of the kernels share: levels, and memory at whose ends
// a read or write is fatal.
package kerneltest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// AtEachLevel runs a test on every level that this processor has.
func AtEachLevel(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for l := kernel.Portable; l <= kernel.Supported(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			restore, err := kernel.Use(l)
			testkit.Must(t, err)
			defer restore()
			test(t)
		})
	}
}

// Check checks a property on every level that this processor has.
func Check(t *testing.T, property func(t *rapid.T)) {
	t.Helper()
	AtEachLevel(t, func(t *testing.T) { rapid.Check(t, property) })
}
