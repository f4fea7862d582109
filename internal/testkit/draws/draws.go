// Package draws fixes the seed of property tests: a test that imports it uses the same seed in every run, or that of
// RAPID_SEED. The command .ci/new-seeds draws one for all property tests.
//
// It is not part of testkit, because package rapid makes every test binary that links it a fifth larger.
package draws

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid" // defines the flags

	"github.com/conclave-dp/conclave/internal/testkit"
)

// seedVariable is read by rapid as well.
const seedVariable = "RAPID_SEED"

// fixedSeed is the default seed.
const fixedSeed = 1

func init() {
	if _, given := os.LookupEnv(seedVariable); given {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(fixedSeed)); err != nil {
		panic(err)
	}
}

// Costly checks a property whose draws take long. With the fixed seed, which draws the same in every run, it takes a
// tenth of the draws; with any other seed all.
func Costly(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	if _, given := os.LookupEnv(seedVariable); !given {
		checks := flag.Lookup("rapid.checks").Value
		all := checks.String()
		n, err := strconv.Atoi(all)
		testkit.Must(t, err)
		testkit.Must(t, checks.Set(strconv.Itoa((n+9)/10)))
		defer func() { testkit.Must(t, checks.Set(all)) }()
	}
	rapid.Check(t, property)
}
