// Package meaning explains in figures and words what an (epsilon, delta) means for the protected units: [Tell] how
// well anybody can distinguish two neighbouring datasets, [Guarantee.Strength] the word for it by a published
// convention, and [Guarantee.Warnings] what is unusual about it.
package meaning
