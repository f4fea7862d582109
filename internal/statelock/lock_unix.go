//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statelock

import (
	"errors"
	"os"
	"syscall"
)

// NoFollow is the flag of [os.OpenFile] that refuses a link.
const NoFollow = syscall.O_NOFOLLOW

const (
	exclusive = syscall.LOCK_EX
	shared    = syscall.LOCK_SH
	now       = syscall.LOCK_NB
)

// lock locks the file; with now it does not wait, and returns errBusy. No other program inherits the lock.
func lock(f *os.File, how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errBusy
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}
