//go:build race

package classify

// Under the race detector the larger sets take minutes.
const raced = true
