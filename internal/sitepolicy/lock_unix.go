//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sitepolicy

import (
	"os"
	"syscall"
)

// noFollow has a link refused: what is behind it could be any file of the node's user, whose end would be cut off.
const noFollow = syscall.O_NOFOLLOW

// lock waits until no other process has the file: a node appends charges, people's
// commands append decisions. It ends when the file is closed.
func lock(f *os.File, shared bool) error {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
