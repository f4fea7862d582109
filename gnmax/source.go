package gnmax

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
)

// Source is where noise comes from. It may be used by several goroutines at
// once; each draw has its own random bits.
type Source struct {
	mu    sync.Mutex
	draws draws // guarded by mu
}

// NewSource reads the operating system's generator through crypto/rand.
func NewSource() *Source { return NewSourceFrom(rand.Reader) }

// NewSourceFrom is for tests: noise from bytes that somebody else knows
// protects nothing.
func NewSourceFrom(r io.Reader) *Source {
	return &Source{draws: draws{reader: bufio.NewReaderSize(r, 4096)}}
}

// errBroken is returned where only a source that is not random can lead.
var errBroken = errors.New("the source of randomness repeats itself; nothing can be released with it")

// draws hands out random bits. After its first error all bits are zero:
// samplers must not loop on that, and [Source.draw] drops what they return.
type draws struct {
	reader *bufio.Reader
	err    error
}

// draw runs one sampler with the source to itself.
func (s *Source) draw(sample func(d *draws) int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draws.err = nil
	x := sample(&s.draws)
	if s.draws.err != nil {
		return 0, fmt.Errorf("draw noise: %w", s.draws.err)
	}
	return x, nil
}

// word returns 64 random bits.
func (d *draws) word() uint64 {
	if d.err != nil {
		return 0
	}
	b, err := d.reader.Peek(8)
	if err != nil {
		d.fail(err)
		return 0
	}
	w := binary.LittleEndian.Uint64(b)
	if _, err := d.reader.Discard(8); err != nil {
		d.fail(err)
	}
	return w
}

// fail keeps the first error.
func (d *draws) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// maxRepeats bounds every loop that a random source leaves with probability 1/4
// or more each time: none gets there (0.75^4096 is below 10^-500), a broken one
// may.
const maxRepeats = 1 << 12

// uniform returns a number in [0, n), n > 0, every one equally likely: the
// product w*n falls into n intervals of 2^64, and what would make some of them
// longer is drawn again (Lemire 2019).
func (d *draws) uniform(n uint64) uint64 {
	for range maxRepeats {
		hi, lo := bits.Mul64(d.word(), n)
		if lo >= n || lo >= -n%n {
			return hi
		}
	}
	d.fail(errBroken)
	return 0
}
