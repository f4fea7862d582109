// Package clitest runs commands in the process of a test, which takes a tenth of the time to start a program.
package clitest

import (
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// calling is held while the folder, the outputs and the environment of this process are changed.
var calling sync.Mutex

// StateHome names the folder of the register of data files, in the environment.
const StateHome = "XDG_STATE_HOME"

// At is where a program runs. Without a folder it stays in that of the test: tests beside it may use relative paths.
// Without State it keeps the register of data files where the test does.
type At struct{ Folder, State string }

// Script is a command of testscript that runs a program in this process:
//
//	call ARGS          it must end with code 0, or with another one after a !
//	call CODE ARGS     with this one
//
// One runs at a time. Of the script's environment it sees only where users keep state, and no input: use exec for more.
func Script(command func() *cobra.Command) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		want := -1
		if len(args) > 0 {
			if n, err := strconv.Atoi(args[0]); err == nil {
				want, args = n, args[1:]
			}
		}
		got, stdout, stderr := Call(command(), At{ts.MkAbs("."), ts.Getenv(StateHome)}, args...)
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
}

// Call runs a program and returns its exit code, and what it wrote. It must not wait for anything, because one runs at
// a time.
func Call(program *cobra.Command, at At, args ...string) (code int, stdout, stderr string) {
	calling.Lock()
	defer calling.Unlock()
	if at.Folder != "" {
		here := testkit.Value(os.Getwd())
		must(os.Chdir(at.Folder))
		defer func() { must(os.Chdir(here)) }()
	}
	if at.State != "" {
		before := os.Getenv(StateHome)
		must(os.Setenv(StateHome, at.State))
		defer func() { must(os.Setenv(StateHome, before)) }()
	}
	readOut, readErr := redirected(&os.Stdout), redirected(&os.Stderr)
	program.SetArgs(append([]string{}, args...)) // nil would use those of the process
	code = cli.Run(program)
	return code, readOut(), readErr()
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
