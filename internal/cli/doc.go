// Package cli is what the command lines of all programs share: how a program
// runs and ends, what it says about wrong usage, flags that several commands
// have, and manual pages. The commands of conclave are in the packages below.
//
// Results go to standard output, everything else to standard error. A program
// ends with exit code 0 when it is done, 1 when it failed and 2 after wrong
// usage; an [ExitError] has a code of its own.
package cli
