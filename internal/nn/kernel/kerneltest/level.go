// Package kerneltest has what tests of the kernels share: levels, and memory at whose ends
// a read or write is fatal.
package kerneltest

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

// AtEachLevel runs a test on every level that this processor has.
func AtEachLevel(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for l := kernel.Portable; l <= kernel.Supported(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			restore, err := kernel.Use(l)
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			test(t)
		})
	}
}
