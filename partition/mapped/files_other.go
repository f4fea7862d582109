//go:build !darwin && !linux

package mapped

import (
	"errors"
	"os"
)

var errNone = errors.New("memory-mapped files are not supported on this system; run the node on Linux or macOS, or " +
	"remove stream")

func mapFile(*os.File, int) ([]byte, error) { return nil, errNone }

func protect([]byte) error { return errNone }

func unmap([]byte) error { return errNone }

// Free returns the bytes that this user may still write to the disk of a folder.
func Free(string) (uint64, error) { return 0, errNone }
