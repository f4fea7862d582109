package gnmax

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// constant is an endless reader of one byte value.
type constant byte

func (c constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

// A broken source gives an error, and neither noise nor an endless loop.
func TestBrokenSources(t *testing.T) {
	sigma, large := mustSigma(t, 3), mustSigma(t, 3000)
	scale, err := NewScale(3, 1)
	testkit.Must(t, err)
	for name, draw := range map[string]func(*Source) (int64, error){
		"gaussian":       func(s *Source) (int64, error) { return s.DiscreteGaussian(sigma) },
		"large gaussian": func(s *Source) (int64, error) { return s.DiscreteGaussian(large) },
		"laplace": func(s *Source) (int64, error) {
			x := []int64{9}
			err := s.DiscreteLaplaces(x, scale)
			return x[0], err
		},
	} {
		if x, err := draw(NewSourceFrom(constant(0))); !errors.Is(err, errBroken) || x != 0 {
			t.Errorf("%s from zeros: %d, %v", name, x, err)
		}
		for value := range 256 { // must end, with or without an error
			if x, err := draw(NewSourceFrom(constant(value))); err != nil && x != 0 {
				t.Errorf("%s: %d comes with the error %v", name, x, err)
			}
		}
		if x, err := draw(NewSourceFrom(bytes.NewReader(nil))); !errors.Is(err, io.EOF) || x != 0 {
			t.Errorf("%s from nothing: %d, %v", name, x, err)
		}
		if x, err := draw(NewSourceFrom(bytes.NewReader(make([]byte, 12)))); err == nil || x != 0 {
			t.Errorf("%s from 12 bytes: %d, %v", name, x, err)
		}
	}
	for name, fill := range map[string]func(*Source, []int64) error{
		"gaussians":  func(s *Source, dst []int64) error { return s.DiscreteGaussians(dst, sigma) },
		"large ones": func(s *Source, dst []int64) error { return s.DiscreteGaussians(dst, large) },
		"laplaces":   func(s *Source, dst []int64) error { return s.DiscreteLaplaces(dst, scale) },
		"no sigma":   func(s *Source, dst []int64) error { return s.DiscreteGaussians(dst, Sigma{}) },
		"no scale":   func(s *Source, dst []int64) error { return s.DiscreteLaplaces(dst, Scale{}) },
	} {
		dst := slices.Repeat([]int64{9}, 1000)
		// Enough bytes for some of them.
		if err := fill(NewSourceFrom(io.LimitReader(NewSource().draws.reader, 1000)), dst); err == nil {
			t.Errorf("%s: no error", name)
		}
		if slices.ContainsFunc(dst, func(x int64) bool { return x != 0 }) {
			t.Errorf("%s: noise comes with an error", name)
		}
	}
	if _, err := NewSource().DiscreteGaussian(Sigma{}); !errors.Is(err, ErrParameter) {
		t.Errorf("the zero Sigma: error is %v", err)
	}
}

// Concurrent goroutines never get the same bits from one source.
func TestSourceIsSafeForGoroutines(t *testing.T) {
	src := NewSource()
	const workers, each = 8, 500
	var all sync.Map
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				x, err := src.draw(func(d *draws) int64 { return int64(d.word()) })
				if err != nil {
					t.Error(err)
				}
				if _, repeated := all.LoadOrStore(x, true); repeated {
					t.Errorf("the same 64 bits came twice")
				}
			}
		})
	}
	wg.Wait()
}

// A long slice is filled by several processors like one that is not divided: every place has bits that no other place
// has, and the requested distribution.
func TestLongSlicesAreDivided(t *testing.T) {
	atLeastTwoProcessors(t)
	const n = 40 * minPart
	src, words := NewSource(), make([]int64, n)
	var used sync.Map // the draws that were used
	testkit.Must(t, src.fillWith(words, func(d *draws) int64 {
		used.Store(d, true)
		return int64(d.word())
	}))
	several := 0
	used.Range(func(any, any) bool {
		several++
		return true
	})
	if several < 2 {
		t.Errorf("a slice of %d was filled by %d", n, several)
	}
	slices.Sort(words)
	if len(slices.Compact(words)) != n {
		t.Error("the same 64 bits came twice")
	}

	sigma, xs := mustSigma(t, 3.5), make([]int64, sampleSize)
	testkit.Must(t, src.DiscreteGaussians(xs, sigma))
	checkNoise(t, xs, gaussianPMF(variance(sigma), 12))
}

// runsOut provides random bytes, to several readers at once, until they run out.
type runsOut struct {
	mu   sync.Mutex
	left int
}

func (r *runsOut) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < len(p) {
		return 0, io.ErrUnexpectedEOF
	}
	r.left -= len(p)
	return rand.Read(p)
}

// If one of the processors runs out of bits, nothing is returned, not even the numbers that the others drew.
func TestOneProcessorWithoutBits(t *testing.T) {
	atLeastTwoProcessors(t)
	sigma := mustSigma(t, 100)
	for left := 0; left < 1<<18; left += 1 << 14 {
		src := NewSourceFrom(&runsOut{left: left})
		src.divided = true
		dst := slices.Repeat([]int64{9}, 10*minPart)
		if err := src.DiscreteGaussians(dst, sigma); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("with %d bytes: %v", left, err)
		}
		if slices.ContainsFunc(dst, func(x int64) bool { return x != 0 }) {
			t.Errorf("with %d bytes noise comes with an error", left)
		}
	}
}

func atLeastTwoProcessors(t *testing.T) {
	if before := runtime.GOMAXPROCS(0); before < 2 {
		runtime.GOMAXPROCS(2)
		t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	}
}

// chain is a reproducible stream of bytes for tests: SHA-256 of a counter.
type chain struct {
	counter byte
	rest    []byte
}

func (c *chain) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		sum := sha256.Sum256([]byte{c.counter})
		c.counter++
		c.rest = sum[:]
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// A slice at a time, as the mechanisms draw.
func BenchmarkDiscreteGaussians(b *testing.B) {
	src := NewSource()
	for _, c := range []struct {
		name  string
		sigma float64
		n     int
	}{{"sigma=1", 1, 1000}, {"sigma=100", 100, 1000}, {"sigma=1e6", 1e6, 1000}, {"sigma=1e6/n=100000", 1e6, 100_000}} {
		s, noise := mustSigma(b, c.sigma), make([]int64, c.n)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testkit.Must(b, src.DiscreteGaussians(noise, s))
			}
			b.ReportMetric(float64(b.N*len(noise))/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}
