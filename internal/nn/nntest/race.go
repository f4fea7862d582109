//go:build race

package nntest

// Raced says that the race detector runs. With it, a sync.Pool drops items at random.
const Raced = true
