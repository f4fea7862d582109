// Package tilt moves a generator of tables towards its own distribution tilted by the exponential of a public
// function, the change of a discriminator. The generator is fitted to the mean random features of its own
// weighted records. It does not climb the function, since that would narrow its distribution.
//
//	m := tilt.New(student, encoder, steps)
//	m.Follow(func(x []float32, classes []int) []float32 { ... })
//
// It sees only generated records, so it costs nothing.
package tilt
