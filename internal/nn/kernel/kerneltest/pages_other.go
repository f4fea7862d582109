//go:build !unix

package kerneltest

import "errors"

// Pages says that this system cannot protect memory.
func Pages(int) ([]float32, func(), error) { return nil, nil, errors.ErrUnsupported }
