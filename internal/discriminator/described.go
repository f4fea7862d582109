package discriminator

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// last is the discriminator that a node was asked about last. Within a run only its weights and units change.
type last struct {
	spec *conclavev1.Discriminator
	net  *Discriminator
}

// Described makes the discriminator of a question: its network, its weights as little-endian float32 values, and
// its units if it has standard inputs. The caller owns it until the next call for the same node.
func Described(p *question.Public, d *conclavev1.Discriminator, weights []byte, mean, scale *conclavev1.Tensor,
) (*Discriminator, error) {
	net, err := network(p, d)
	if err != nil {
		return nil, err
	}
	values, err := safetensors.Floats(weights)
	if err != nil {
		return nil, err
	}
	if err := net.SetWeights(values); err != nil {
		return nil, err
	}
	if !d.Standard {
		return net, nil
	}
	units, err := standard(p, mean, scale)
	if err != nil {
		return nil, err
	}
	net.SetUnits(units)
	return net, nil
}

// network makes the network that a description names, or returns the last one.
func network(p *question.Public, d *conclavev1.Discriminator) (*Discriminator, error) {
	if d == nil {
		return nil, errors.New("the question does not describe its discriminator")
	}
	l := question.Memory[last](p)
	if l.net != nil && proto.Equal(l.spec, d) {
		return l.net, nil
	}
	if int64(d.Classes) != int64(p.Classes) {
		return nil, fmt.Errorf("a discriminator of %d classes; the schema has %d, use the same schema on both sides",
			d.Classes, p.Classes)
	}
	s := Spec{
		Features: p.Features, Image: p.Image(), Numbers: p.Numbers, Classes: p.Classes,
		Hidden: int(d.Hidden), Layers: int(d.Layers), Each: d.ByClass == conclavev1.Discriminator_CLASSES_EACH,
		Standard: d.Standard, Cosines: int(d.Cosines), Pieces: d.Pieces, Fourier: int(d.Fourier), Seed: d.Seed,
	}
	switch d.Kind {
	case conclavev1.Discriminator_KIND_DENSE:
		s.Kind = Dense
	case conclavev1.Discriminator_KIND_CONVOLUTION:
		s.Kind = Convolution
	}
	if d.ByClass != conclavev1.Discriminator_CLASSES_TOLD && !s.Each {
		return nil, fmt.Errorf("the discriminator's class input %v is unknown to this node; use told or each, or "+
			"update the node", d.ByClass)
	}
	net, err := New(s, rand.New(rand.NewPCG(0, 0))) // weights come with the question
	if err != nil {
		return nil, err
	}
	*l = last{proto.Clone(d).(*conclavev1.Discriminator), net}
	return net, nil
}

// standard reads the units of standard inputs.
func standard(p *question.Public, mean, scale *conclavev1.Tensor) (*scaling.Scaler, error) {
	m, err := safetensors.Floats(mean.GetData())
	if err != nil {
		return nil, err
	}
	s, err := safetensors.Floats(scale.GetData())
	if err != nil {
		return nil, err
	}
	return scaling.FromUnits(m, s, p.Features, p.Classes, p.Numbers)
}

// Describe returns the description that nodes are sent.
func (s Spec) Describe() *conclavev1.Discriminator {
	d := &conclavev1.Discriminator{
		Kind: conclavev1.Discriminator_KIND_DENSE, Hidden: uint32(s.Hidden), Layers: uint32(s.Layers),
		Classes: uint32(s.Classes), ByClass: conclavev1.Discriminator_CLASSES_TOLD, Standard: s.Standard,
		Cosines: uint32(s.Cosines), Pieces: s.Pieces, Fourier: uint32(s.Fourier), Seed: s.Seed,
	}
	if s.Kind == Convolution {
		d.Kind = conclavev1.Discriminator_KIND_CONVOLUTION
	}
	if s.Each {
		d.ByClass = conclavev1.Discriminator_CLASSES_EACH
	}
	return d
}
