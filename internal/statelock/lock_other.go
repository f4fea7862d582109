//go:build !unix

package statelock

import "os"

func lock(*os.File) error { return nil }
