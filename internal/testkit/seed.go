package testkit

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // defines the flag
)

// seedVariable is read by rapid as well.
const seedVariable = "RAPID_SEED"

// fixedSeed is the seed of every run that names no other.
const fixedSeed = 1

func init() {
	if _, given := os.LookupEnv(seedVariable); given {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(fixedSeed)); err != nil {
		panic(err)
	}
}

// Seed returns the seed for what a test draws without rapid: that of rapid's property
// tests, or a new one where they draw new ones. It logs the command that repeats it.
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
