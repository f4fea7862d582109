package teacher

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/nn"
	"github.com/conclave-dp/conclave/projection"
)

// cosines are the node's records as coefficients of images, which stay the same over
// rounds.
type cosines struct {
	basis    *projection.Projection
	examples []nn.Examples
}

// checkCosines refuses a number of coefficients that is not that of k x k frequencies in
// each channel of the schema's images.
func (n *Node) checkCosines(count int) error {
	image := n.schema.Image
	if image == nil {
		return fmt.Errorf("teachers that see cosines need records that are images")
	}
	side := int(math.Round(math.Sqrt(float64(count) / float64(image.Channels))))
	if side*side*image.Channels != count || side < 1 || side > min(image.Height, image.Width) {
		return fmt.Errorf("teachers see %d cosines; use k x k for each of %d channels, with k from 1 to %d", count, image.Channels, min(image.Height, image.Width))
	}
	return nil
}

// asCosines returns the node's examples as coefficients, made once, with their basis.
func (n *Node) asCosines(count int) (*cosines, error) {
	if n.cosines != nil && n.cosines.basis.Spec().Directions == count {
		return n.cosines, nil
	}
	image := n.schema.Image
	side := int(math.Round(math.Sqrt(float64(count / image.Channels))))
	basis, err := projection.NewCosines(image.Height, image.Width, image.Channels, side)
	if err != nil {
		return nil, err
	}
	c := &cosines{basis: basis, examples: make([]nn.Examples, len(n.examples))}
	for t, e := range n.examples {
		for _, x := range e.ByClass {
			c.examples[t].ByClass = append(c.examples[t].ByClass, c.of(x))
		}
	}
	n.cosines = c
	return c, nil
}

// of returns the coefficients of images.
func (c *cosines) of(x []float32) []float32 {
	rows := len(x) / c.basis.Spec().Features
	out := make([]float32, rows*c.basis.Spec().Directions)
	if rows > 0 {
		c.basis.Project(out, x, rows)
	}
	return out
}
