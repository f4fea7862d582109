//go:build !unix

package kernel

import "errors"

func lonePages(int) ([]float32, func(), error) { return nil, nil, errors.ErrUnsupported }
