//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package statelock

import "os"

// NoFollow has no flag on this system.
const NoFollow = 0

const exclusive, shared, now = 0, 0, 0

func lock(*os.File, int) error { return ErrUnsupported }
