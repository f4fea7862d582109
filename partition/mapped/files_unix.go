//go:build darwin || linux

package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, bytes int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func protect(raw []byte) error { return unix.Mprotect(raw, unix.PROT_READ) }

func unmap(raw []byte) error { return unix.Munmap(raw) }
