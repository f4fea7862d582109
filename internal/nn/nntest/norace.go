//go:build !race

package nntest

// Raced says that the race detector runs.
const Raced = false
