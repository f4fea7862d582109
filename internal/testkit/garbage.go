package testkit

import (
	"os"
	"runtime/debug"
)

const (
	garbageVariable = "GOGC"
	// Tests and the programs that they start keep little in memory and make much garbage. By default a small cluster
	// would spend a fifth of its time on garbage collection.
	garbagePercent, garbageText = 400, "400"
)

func init() {
	if _, given := os.LookupEnv(garbageVariable); given {
		return
	}
	debug.SetGCPercent(garbagePercent)
	if err := os.Setenv(garbageVariable, garbageText); err != nil { // started programs read it
		panic(err)
	}
}
