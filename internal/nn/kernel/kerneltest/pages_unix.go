//go:build unix

package kerneltest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pages returns numbers, pages of them, before and after which memory is not
// readable.
func Pages(pages int) ([]float32, func(), error) {
	page := unix.Getpagesize()
	raw, err := unix.Mmap(-1, 0, (pages+2)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	release := func() { unix.Munmap(raw) }
	for _, part := range [][]byte{raw[:page], raw[(pages+1)*page:]} {
		if err := unix.Mprotect(part, unix.PROT_NONE); err != nil {
			release()
			return nil, nil, err
		}
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&raw[page])), pages*page/4), release, nil
}
