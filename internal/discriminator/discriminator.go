package discriminator

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/projection"
)

// Discriminator scores records. It is not safe for concurrent use: it stores what the last Scores computed for
// Backward.
type Discriminator struct {
	Net   *nn.Network
	spec  Spec
	units *scaling.Scaler
	// basis is the basis of cosines, fourier the random features; nil if not used.
	basis   *projection.Projection
	fourier *projection.Fourier
	// piece says for each feature whether it is a number encoded in pieces.
	piece []bool

	inputs  []float32
	classes []int
	scores  []float32
	dy      []float32
	dx      []float32
	x       []float32 // the caller's
	// back is the gradient with respect to the features seen, random that with respect to random features; was
	// holds the features seen.
	back, random, was []float32
}

// New makes a discriminator with weights drawn from rng.
func New(s Spec, rng *rand.Rand) (*Discriminator, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	d := &Discriminator{spec: s}
	var err error
	if s.Cosines > 0 {
		side := int(math.Sqrt(float64(s.Cosines / s.Image.Channels)))
		if side*side*s.Image.Channels != s.Cosines {
			return nil, fmt.Errorf("%d cosines of %d channels do not form a square of frequencies per "+
				"channel", s.Cosines,
				s.Image.Channels)
		}
		if d.basis, err = projection.NewCosines(s.Image.Height, s.Image.Width, s.Image.Channels, side); err != nil {
			return nil, err
		}
	}
	in, layers := s.layers()
	if d.Net, err = nn.NewNetwork(rng, in, layers...); err != nil {
		return nil, err
	}
	if s.Fourier > 0 {
		if d.fourier, err = projection.NewFourier(s.seen(), s.Fourier, s.fourierSpread(), fourierWeight,
			s.Seed); err != nil {
			return nil, err
		}
	}
	if s.Pieces {
		d.piece = make([]bool, s.Features)
		for _, j := range s.Numbers {
			d.piece[j] = true
		}
	}
	if s.Standard {
		d.units, err = scaling.New(nil, nil, s.Features, s.Classes, s.Numbers)
	}
	return d, err
}

// Clone returns a copy with the same weights and units, and its own memory.
func (d *Discriminator) Clone() (*Discriminator, error) {
	c, err := New(d.spec, rand.New(rand.NewPCG(0, 0))) // its weights are replaced
	if err != nil {
		return nil, err
	}
	c.units = d.units
	return c, c.SetWeights(d.Weights())
}

// Spec is the specification from which the discriminator was made.
func (d *Discriminator) Spec() Spec { return d.spec }

// Parameters is the number of weights.
func (d *Discriminator) Parameters() int {
	n := 0
	for _, p := range d.Net.Params() {
		n += len(p.Value)
	}
	return n
}

// Weights returns a copy of all weights, first layer first.
func (d *Discriminator) Weights() []float32 {
	var all []float32
	for _, p := range d.Net.Params() {
		all = append(all, p.Value...)
	}
	return all
}

// SetWeights sets weights as returned by Weights. It fails if their number is wrong or if they are not finite.
func (d *Discriminator) SetWeights(weights []float32) error {
	if want := d.Parameters(); len(weights) != want {
		return fmt.Errorf("%d weights for a discriminator of %d", len(weights), want)
	}
	for i, v := range weights {
		if !(math.Abs(float64(v)) <= math.MaxFloat32) {
			return fmt.Errorf("weight %d is not finite: the discriminator has diverged; lower its learning rate", i)
		}
	}
	for _, p := range d.Net.Params() {
		weights = weights[copy(p.Value, weights):]
	}
	return nil
}

// SetUnits sets the units of standard inputs. They must not be private.
func (d *Discriminator) SetUnits(u *scaling.Scaler) { d.units = u }

// Units returns the units of standard inputs, nil for other inputs.
func (d *Discriminator) Units() *scaling.Scaler { return d.units }

// Inputs appends the network's inputs for records x, shape [len(classes), Features], to dst.
func (d *Discriminator) Inputs(dst, x []float32, classes []int) []float32 {
	s := d.spec
	n, first, seen := len(classes), s.first(), s.seen()
	rows := d.seen(x, classes)
	random := make([]float32, n*s.Fourier)
	if d.fourier != nil {
		d.fourier.Project(random, rows, n)
	}
	at := len(dst)
	dst = append(dst, make([]float32, n*first)...)
	for i, c := range classes {
		row := dst[at+i*first : at+(i+1)*first]
		copy(row, rows[i*seen:(i+1)*seen])
		copy(row[seen:], random[i*s.Fourier:(i+1)*s.Fourier])
		switch {
		case s.Each:
		case s.Kind == Convolution:
			row[seen] = float32(c)
		default:
			row[seen+s.Fourier+c] = 1
		}
	}
	return dst
}

// seen returns the features seen of records, before random features and classes, shape [len(classes), seen].
func (d *Discriminator) seen(x []float32, classes []int) []float32 {
	n, seen, w := len(classes), d.spec.seen(), d.spec.Features
	if d.spec.Standard {
		return d.units.All(x, classes)
	}
	rows := make([]float32, n*seen)
	switch {
	case d.basis != nil:
		d.basis.Project(rows, x, n)
	case d.piece != nil:
		for i := range n {
			to := rows[i*seen : (i+1)*seen]
			for j, v := range x[i*w : (i+1)*w] {
				if d.piece[j] {
					projection.Pieces(to, v)
					to = to[projection.PieceCount:]
				} else {
					to[0] = v
					to = to[1:]
				}
			}
		}
	default:
		centre(rows, x)
	}
	return rows
}

// centre maps features from [0, 1] to [-1, 1].
func centre(dst, from []float32) {
	for j, v := range from {
		dst[j] = 2*v - 1
	}
}

// Heads returns the network's output that is the score of each record's class; nil if there is only one.
func (d *Discriminator) Heads(classes []int) []int {
	if d.spec.Each {
		return classes
	}
	return nil
}

// Scores returns the score of each record; it is valid until the next call. Records and
// classes must not change before Backward or Slope.
func (d *Discriminator) Scores(x []float32, classes []int) []float32 {
	d.inputs, d.classes, d.x = d.Inputs(d.inputs[:0], x, classes), classes, x
	y, out := d.Net.Forward(d.inputs, len(classes)), d.Net.Out()
	d.scores = d.scores[:0]
	for i, c := range classes {
		if out == 1 {
			c = 0
		}
		d.scores = append(d.scores, y[i*out+c])
	}
	return d.scores
}

// outputs converts the gradient with respect to scores into that with respect to the network's outputs.
func (d *Discriminator) outputs(scores []float32) []float32 {
	out := d.Net.Out()
	if out == 1 {
		return scores
	}
	d.dy = append(d.dy[:0], make([]float32, len(scores)*out)...)
	for i, c := range d.classes {
		d.dy[i*out+c] = scores[i]
	}
	return d.dy
}

// Backward adds the gradients of the weights, given the gradient with respect to the last Scores.
func (d *Discriminator) Backward(scores []float32) { d.Net.Backward(d.outputs(scores), true, false) }

// Slope returns the gradient with respect to the records of the last Scores, shape [records, Features], given the
// gradient with respect to these scores. It is valid until the next call.
func (d *Discriminator) Slope(scores []float32) []float32 {
	in := d.Net.Backward(d.outputs(scores), false, true)
	s, n := d.spec, len(d.classes)
	first, seen := s.first(), s.seen()
	if cap(d.dx) < n*s.Features {
		d.dx = make([]float32, n*s.Features)
	}
	d.dx, d.back, d.was = d.dx[:n*s.Features], d.back[:0], d.was[:0]
	for i := range n {
		d.back = append(d.back, in[i*first:i*first+seen]...)
	}
	if d.fourier != nil {
		d.random = d.random[:0]
		for i := range n {
			d.was = append(d.was, d.inputs[i*first:i*first+seen]...)
			d.random = append(d.random, in[i*first+seen:i*first+seen+s.Fourier]...)
		}
		d.fourier.Slope(d.back, d.random, d.was, n)
	}
	if d.basis != nil {
		d.basis.Back(d.dx, d.back, n)
		return d.dx
	}
	for i, c := range d.classes {
		to, from := d.dx[i*s.Features:(i+1)*s.Features], d.back[i*seen:(i+1)*seen]
		switch {
		case s.Standard:
			d.units.Slope(to, from, d.inputs[i*first:i*first+seen], c)
		case d.piece != nil:
			d.slopeOfPieces(to, from, d.x[i*s.Features:(i+1)*s.Features])
		default:
			for j := range to {
				to[j] = 2 * from[j]
			}
		}
	}
	return d.dx
}

// slopeOfPieces converts the gradient with respect to a record's pieces into that with respect to the record x.
func (d *Discriminator) slopeOfPieces(to, from, x []float32) {
	for j, v := range x {
		if d.piece[j] {
			to[j] = projection.PiecesSlope(from, v)
			from = from[projection.PieceCount:]
		} else {
			to[j] = from[0]
			from = from[1:]
		}
	}
}
