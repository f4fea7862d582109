// Package meaning says in figures and words what an (epsilon, delta) means to those who are protected:
// [Tell] how well anybody can tell two neighbouring datasets apart, [Guarantee.Strength] which word suits it by a
// published convention, and [Guarantee.Warnings] what is unusual about it.
package meaning
