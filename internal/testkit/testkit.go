// Package testkit has what the tests of several packages share: short checks and waits with a bound. It makes garbage
// collection less frequent, unless GOGC is set. Property tests also import package draws.
package testkit

import (
	"context"
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Patience bounds every wait of a test without its own bound. A successful wait never uses it up, so it is long
// enough for a busy machine and the race detector.
const Patience = 5 * time.Minute

// WaitTogether runs six times as many parallel tests at once as there are cores, because they wait more than they
// compute; -parallel overrides it. TestMain calls it after flags are parsed.
func WaitTogether() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if n := 6 * runtime.GOMAXPROCS(0); !given {
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper() // only here, because it takes long and tests of distributions call Must a million times
		t.Fatal(err)
	}
}

// Allocated returns how many bytes the program allocates while do runs, freed ones among them.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Value returns v and panics if err is not nil. It is for property tests, whose T is not a testing.TB, and for
// expressions.
func Value[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Read returns the content of a file, and ends the test if it cannot be read.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	Must(t, err)
	return raw
}

// Names are those of the files in a folder, sorted.
func Names(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	Must(t, err)
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// Same fails the test, without ending it, with the difference of two values if there is one. what describes them, and
// may be empty.
func Same(t testing.TB, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Eventually waits until holds is true, and ends the test if it is not within Patience. It returns how long it
// waited.
func Eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for ; !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > Patience {
			t.Fatalf("waited %v for %s", Patience, what)
		}
	}
	return time.Since(began)
}

// Receive waits for a value on c or for c's close, and ends the test if neither comes within Patience. Only the
// test's goroutine may call it.
func Receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("nothing came within %v", Patience)
		panic("unreachable")
	}
}

// Within returns a context that ends after Patience, or after the test.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}
