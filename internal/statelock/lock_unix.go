//go:build unix

package statelock

import (
	"errors"
	"os"
	"syscall"
)

// lock locks the file, or returns errBusy. Closing the file unlocks it; no other program inherits it.
func lock(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errBusy
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}
