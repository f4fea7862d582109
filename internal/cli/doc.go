// Package cli is what the command lines of all programs share: how a program runs and ends, its messages about wrong
// usage, flags of several commands, and manual pages. The commands of conclave are in the packages below.
//
// Results go to standard output, everything else to standard error. A program ends with exit code 0 on success, 1 on
// failure and 2 after wrong usage; an [ExitError] has its own code.
package cli
