package gnmax

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"sync"
)

// Source draws noise. It is safe for concurrent use; each draw has its own random bits.
type Source struct {
	// divided says that several goroutines may use the reader at once, so that all processors can fill long slices.
	divided bool
	mu      sync.Mutex
	draws   draws // guarded by mu, except its reader
}

// NewSource reads the operating system's generator through crypto/rand.
func NewSource() *Source {
	s := NewSourceFrom(rand.Reader)
	s.divided = true
	return s
}

// NewSourceFrom is for tests, and for repeating a secret sample. Noise from bytes that anyone else knows protects
// nothing.
func NewSourceFrom(r io.Reader) *Source {
	return &Source{draws: draws{reader: r}}
}

// errBroken is returned if only a source that is not random can reach this point.
var errBroken = errors.New("the source of randomness repeats itself; nothing can be released with it")

// draws provides random bits. After its first error all bits are zero: samplers must not loop on that, and
// [Source.fillWith] discards their results.
type draws struct {
	reader   io.Reader
	buffer   [4096]byte
	from, to int // the unused part of buffer
	err      error
}

// draw is fillWith for a single number.
func (s *Source) draw(sample func(d *draws) int64) (int64, error) {
	var x [1]int64
	err := s.fillWith(x[:], sample)
	return x[0], err
}

// minPart is the number of draws that makes a goroutine worthwhile.
const minPart = 2048

// fillWith fills dst with numbers from sample, or with zeros if the source fails. sample has its argument to itself
// and must not depend on anything that it changes. Long slices are divided among processors, each with its own random
// bits, at places that depend only on the number of processors.
func (s *Source) fillWith(dst []int64, sample func(d *draws) int64) error {
	var err error
	if parts := min(runtime.GOMAXPROCS(0), len(dst)/minPart); s.divided && parts > 1 {
		err = s.fillTogether(dst, sample, parts)
	} else {
		err = s.fillAlone(dst, sample)
	}
	if err != nil {
		clear(dst)
		return fmt.Errorf("draw noise: %w", err)
	}
	return nil
}

// fillTogether is fillWith by several goroutines; after an error dst is partly filled.
func (s *Source) fillTogether(dst []int64, sample func(d *draws) int64, parts int) error {
	var wg sync.WaitGroup
	errs := make([]error, parts)
	for i := range parts {
		part := dst[i*len(dst)/parts : (i+1)*len(dst)/parts]
		wg.Go(func() { errs[i] = NewSourceFrom(s.draws.reader).fillAlone(part, sample) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// fillAlone is fillWith with the source to itself; after an error dst is partly filled.
func (s *Source) fillAlone(dst []int64, sample func(d *draws) int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draws.err = nil
	for i := range dst {
		dst[i] = sample(&s.draws)
		if s.draws.err != nil {
			return s.draws.err
		}
	}
	return nil
}

// refill reads until n bytes are unused. It returns false after an error.
func (d *draws) refill(n int) bool {
	if d.err != nil {
		return false
	}
	left := copy(d.buffer[:], d.buffer[d.from:d.to])
	read, err := io.ReadAtLeast(d.reader, d.buffer[left:], n-left)
	d.from, d.to = 0, left+read
	if err != nil {
		d.fail(err)
		return false
	}
	return true
}

// word returns 64 random bits.
func (d *draws) word() uint64 {
	if d.to-d.from < 8 && !d.refill(8) {
		return 0
	}
	w := binary.LittleEndian.Uint64(d.buffer[d.from:])
	d.from += 8
	return w
}

// word32 returns 32 random bits.
func (d *draws) word32() uint32 {
	if d.to-d.from < 4 && !d.refill(4) {
		return 0
	}
	w := binary.LittleEndian.Uint32(d.buffer[d.from:])
	d.from += 4
	return w
}

// word16 returns 16 random bits.
func (d *draws) word16() uint16 {
	if d.to-d.from < 2 && !d.refill(2) {
		return 0
	}
	w := binary.LittleEndian.Uint16(d.buffer[d.from:])
	d.from += 2
	return w
}

// flip returns a fair coin.
func (d *draws) flip() bool {
	if d.to == d.from && !d.refill(1) {
		return false
	}
	b := d.buffer[d.from]
	d.from++
	return b&1 == 1
}

// fail keeps the first error and drops the unused bytes.
func (d *draws) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.from, d.to = 0, 0
}

// maxRepeats bounds every loop that a random source leaves with probability 1/4 or more each time. A random source
// never reaches it (0.75^4096 is below 10^-500), a broken one may.
const maxRepeats = 1 << 12

// uniform returns a number in [0, n), n > 0, with equal probabilities: for a word w of b bits the product w*n falls
// into n intervals of 2^b, and words that would make some intervals longer are drawn again (Lemire 2019). Random bits
// dominate the time of sampling, so small n use short words.
func (d *draws) uniform(n uint64) uint64 {
	for range maxRepeats {
		switch {
		case n < 1<<13: // drawn again less than once in 8 times
			m := uint32(d.word16()) * uint32(n)
			if lo := m & 0xffff; lo >= uint32(n) || lo >= 1<<16%uint32(n) {
				return uint64(m >> 16)
			}
		case n < 1<<32:
			m := uint64(d.word32()) * n
			if lo := m & 0xffffffff; lo >= n || lo >= 1<<32%n {
				return m >> 32
			}
		default:
			hi, lo := bits.Mul64(d.word(), n)
			if lo >= n || lo >= -n%n {
				return hi
			}
		}
	}
	d.fail(errBroken)
	return 0
}
