package testkit

import (
	"os"
	"runtime/debug"
)

const (
	garbageVariable = "GOGC"
	// Tests and the programs that they start hold little and make much garbage. With the default a fifth
	// of the time of a small cluster goes into its collection.
	garbagePercent, garbageText = 400, "400"
)

func init() {
	if _, given := os.LookupEnv(garbageVariable); given {
		return
	}
	debug.SetGCPercent(garbagePercent)
	if err := os.Setenv(garbageVariable, garbageText); err != nil { // what a test starts reads it
		panic(err)
	}
}
