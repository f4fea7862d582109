package teachers

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/projection"
)

// cosines holds a node's records as cosine coefficients of images, which stay the same over rounds.
type cosines struct {
	basis    *projection.Projection
	examples []ensemble.Examples
}

// cosineSide returns k for count coefficients, those of the k x k lowest frequencies in each channel of the
// schema's images. It refuses other counts.
func cosineSide(p *question.Public, count int) (int, error) {
	image := p.Schema.Image
	if image == nil {
		return 0, errors.New("teachers that see cosines need records that are images")
	}
	side := int(math.Round(math.Sqrt(float64(count) / float64(image.Channels))))
	if side*side*image.Channels != count || side < 1 || side > min(image.Height, image.Width) {
		return 0, fmt.Errorf("teachers see %d cosines; use k x k for each of %d channels, with k from 1 to %d",
			count, image.Channels, min(image.Height, image.Width))
	}
	return side, nil
}

// asCosines returns the site's examples as coefficients, computed once, with their basis.
func asCosines(s *question.Site, count int) (*cosines, error) {
	m := question.Memory[memory](s.Public)
	if m.cosines != nil && m.cosines.basis.Spec().Directions == count {
		return m.cosines, nil
	}
	side, err := cosineSide(s.Public, count)
	if err != nil {
		return nil, err
	}
	image := s.Schema.Image
	basis, err := projection.NewCosines(image.Height, image.Width, image.Channels, side)
	if err != nil {
		return nil, err
	}
	c := &cosines{basis: basis, examples: make([]ensemble.Examples, len(s.Examples))}
	for t, e := range s.Examples {
		if e.View != nil {
			c.examples[t].View = projected{e.View, c}
		}
		for _, x := range e.ByClass {
			c.examples[t].ByClass = append(c.examples[t].ByClass, c.of(x))
		}
	}
	m.cosines = c
	return c, nil
}

// projected is a view of records as coefficients.
type projected struct {
	of ensemble.View
	*cosines
}

func (v projected) Len(class int) int { return v.of.Len(class) }

func (v projected) Append(x []float32, class, from, to int) []float32 {
	return append(x, v.cosines.of(v.of.Append(nil, class, from, to))...)
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
