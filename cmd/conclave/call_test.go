package main

import (
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// calling is held while the folder, the outputs and the environment of this process are changed.
var calling sync.Mutex

// call runs conclave in this process, which takes a tenth of the time to start one:
//
//	call ARGS          it must end with code 0, or with another one after a !
//	call CODE ARGS     with this one
//
// One runs at a time. Of the script's environment it sees only where users keep state, and no input: use exec for more.
func call(ts *testscript.TestScript, neg bool, args []string) {
	want := -1
	if len(args) > 0 {
		if n, err := strconv.Atoi(args[0]); err == nil {
			want, args = n, args[1:]
		}
	}
	got, stdout, stderr := called(ts.MkAbs("."), ts.Getenv(stateHome), args)
	_, err := io.WriteString(ts.Stdout(), stdout)
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), stderr)
	ts.Check(err)
	switch {
	case want >= 0 && got != want:
		ts.Fatalf("it ended with code %d, want %d", got, want)
	case want < 0 && (got != 0) != neg:
		ts.Fatalf("it ended with code %d", got)
	}
}

// stateHome names the folder of the register of data files, in the environment.
const stateHome = "XDG_STATE_HOME"

// called is the exit code of conclave in a folder, with state in another one, and what it wrote.
func called(folder, state string, args []string) (code int, stdout, stderr string) {
	calling.Lock()
	defer calling.Unlock()
	before := os.Getenv(stateHome)
	must(os.Setenv(stateHome, state))
	defer func() { must(os.Setenv(stateHome, before)) }()
	here := testkit.Value(os.Getwd())
	must(os.Chdir(folder))
	readOut, readErr := redirected(&os.Stdout), redirected(&os.Stderr)
	c := command()
	c.SetArgs(append([]string{}, args...)) // nil would use those of the process
	code = cli.Run(c)
	stdout, stderr = readOut(), readErr()
	must(os.Chdir(here))
	return code, stdout, stderr
}

// redirected replaces an output with a file until read is called, which returns what was written to it.
func redirected(output **os.File) (read func() string) {
	before, file := *output, testkit.Value(os.CreateTemp("", "called"))
	must(os.Remove(file.Name()))
	*output = file
	return func() string {
		*output = before
		defer file.Close()
		testkit.Value(file.Seek(0, io.SeekStart))
		return string(testkit.Value(io.ReadAll(file)))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
