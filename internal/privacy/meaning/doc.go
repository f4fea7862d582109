// Package meaning explains in figures and words what an (epsilon, delta) means for the protected units. [Tell]
// says how well anybody can distinguish two neighbouring datasets, [Guarantee.Strength] names the strength by a
// published convention, and [Guarantee.Warnings] lists unusual properties.
package meaning
