//go:build race

package nn

// raced says that the race detector runs, under which pools forget at random.
const raced = true
