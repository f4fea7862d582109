//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sitepolicy

import (
	"errors"
	"os"
)

// lock cannot exclude other processes on this system, so nothing is charged or decided.
func lock(*os.File, bool) error {
	return errors.New("file locks are not supported on this system; run the node on another")
}

const noFollow = 0
