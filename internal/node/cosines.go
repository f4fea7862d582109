package node

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/projection"
)

// cosines are the node's records as coefficients of images, which stay the same over
// rounds.
type cosines struct {
	basis    *projection.Projection
	examples []nn.Examples
}

// cosineSide returns k of a number of coefficients, those of k x k frequencies in each
// channel of the schema's images, and refuses other numbers.
func (n *Node) cosineSide(count int) (int, error) {
	image := n.schema.Image
	if image == nil {
		return 0, errors.New("teachers that see cosines need records that are images")
	}
	side := int(math.Round(math.Sqrt(float64(count) / float64(image.Channels))))
	if side*side*image.Channels != count || side < 1 || side > min(image.Height, image.Width) {
		return 0, fmt.Errorf("teachers see %d cosines; use k x k for each of %d channels, with k from 1 to %d", count, image.Channels, min(image.Height, image.Width))
	}
	return side, nil
}

// asCosines returns the node's examples as coefficients, made once, with their basis.
func (n *Node) asCosines(count int) (*cosines, error) {
	if n.cosines != nil && n.cosines.basis.Spec().Directions == count {
		return n.cosines, nil
	}
	side, err := n.cosineSide(count)
	if err != nil {
		return nil, err
	}
	image := n.schema.Image
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
