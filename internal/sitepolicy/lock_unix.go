//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sitepolicy

import (
	"os"
	"syscall"
)

// noFollow refuses a link: its target could be any file of the node's user, and would be truncated.
const noFollow = syscall.O_NOFOLLOW

// lock waits until no other process has the file: a node appends charges, people's commands append decisions. Closing
// the file unlocks it.
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
