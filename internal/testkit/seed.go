package testkit

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid" // defines the flags
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

// Seed returns the seed for random draws without rapid: the seed of rapid's property tests, or a new one if they use
// new ones. It logs the command that repeats it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64)
	Must(t, err)
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to draw the same again: %s=%d", seedVariable, seed)
	return seed
}

// Costly checks a property whose draws take long. With the fixed seed, which draws the same in every run, it takes a
// tenth of the draws; with any other seed all.
func Costly(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	if _, given := os.LookupEnv(seedVariable); !given {
		checks := flag.Lookup("rapid.checks").Value
		all := checks.String()
		n, err := strconv.Atoi(all)
		Must(t, err)
		Must(t, checks.Set(strconv.Itoa((n+9)/10)))
		defer func() { Must(t, checks.Set(all)) }()
	}
	rapid.Check(t, property)
}
