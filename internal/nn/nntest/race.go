//go:build race

package nntest

// Raced says that the race detector runs, under which pools forget at random.
const Raced = true
