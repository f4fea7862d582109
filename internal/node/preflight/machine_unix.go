//go:build darwin || linux

package preflight

import "syscall"

// openFiles is how many files this process may have open.
func openFiles() (uint64, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, err
	}
	return r.Cur, nil
}
