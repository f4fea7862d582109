//go:build !unix

package kernel

import "errors"

func lonePage() ([]float32, func(), error) { return nil, nil, errors.ErrUnsupported }
