//go:build darwin || linux

package mapped

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, bytes int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func protect(raw []byte) error { return unix.Mprotect(raw, unix.PROT_READ) }

func unmap(raw []byte) error { return unix.Munmap(raw) }

// Free returns the bytes that this user may still write to the disk of a folder.
func Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("ask how much room is left in %s: %w", dir, err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}
