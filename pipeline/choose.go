package pipeline

// Choose gives an option that is unset the first of two values, or the second where second is
// set.
func Choose[T comparable](v *T, unset T, second bool, a, b T) {
	if *v != unset {
		return
	}
	if *v = a; second {
		*v = b
	}
}
