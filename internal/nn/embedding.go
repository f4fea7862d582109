package nn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Embedding makes a network class-conditional. A record has one more number after its own: its class, from 0 to
// Classes-1. Every pixel gets Width more channels, which are learned per class: a generator's noise vector gets
// Width more numbers, a discriminator's image Width more planes (Mirza and Osindero 2014). It must be a network's
// first layer.
//
// An unknown class gives NaN, so that it is not overlooked.
type Embedding struct {
	Classes, Width int
	Init           Init // nil is normal with standard deviation 1
}

func (s Embedding) build(rng *rand.Rand, in Shape, _ *parallel.Pool) (layer, Shape, error) {
	if s.Classes < 1 || s.Width < 1 || s.Classes > 1<<24 {
		return nil, Shape{}, fmt.Errorf("embedding of %d classes in %d numbers,"+
			" want at least 1 of each and at most 2^24 classes", s.Classes, s.Width)
	}
	pixels := in.Height * in.Width
	size, err := tensor.Size([]int{s.Classes, pixels, s.Width})
	if err != nil {
		return nil, Shape{}, fmt.Errorf("embedding: %w", err)
	}
	e := &embedding{classes: s.Classes, pixels: pixels, own: in.Channels, width: s.Width, init: s.Init,
		w: make([]float32, size), dw: make([]float32, size)}
	e.draw(rng)
	in.Channels += s.Width
	return e, in, in.check()
}

// embedding has weights of shape [classes, pixels, width].
type embedding struct {
	classes, pixels, own, width int
	init                        Init
	w, dw                       []float32
}

// in and out are the sizes of a record before and after.
func (e *embedding) in() int  { return e.pixels*e.own + 1 }
func (e *embedding) out() int { return e.pixels * (e.own + e.width) }

// row returns the numbers of a class, nil for an unknown one.
func (e *embedding) row(of []float32, class float32) []float32 {
	if !(class >= 0 && class < float32(e.classes)) || class != float32(int(class)) {
		return nil
	}
	size := e.pixels * e.width
	return of[int(class)*size : (int(class)+1)*size]
}

func (e *embedding) forward(y, x []float32, n int) {
	for range n {
		row := e.row(e.w, x[e.in()-1])
		for p := range e.pixels {
			pixel := y[p*(e.own+e.width) : (p+1)*(e.own+e.width)]
			copy(pixel, x[p*e.own:(p+1)*e.own])
			if row != nil {
				copy(pixel[e.own:], row[p*e.width:])
				continue
			}
			for j := e.own; j < len(pixel); j++ {
				pixel[j] = float32(math.NaN())
			}
		}
		x, y = x[e.in():], y[e.out():]
	}
}

func (e *embedding) backward(dx, dy, x, _ []float32, n int, params bool) {
	for i := range n {
		row := e.row(e.dw, x[(i+1)*e.in()-1])
		for p := range e.pixels {
			pixel := dy[i*e.out()+p*(e.own+e.width):][:e.own+e.width]
			if params && row != nil {
				vector.AddScaled(row[p*e.width:(p+1)*e.width], pixel[e.own:], 1)
			}
			if dx != nil {
				copy(dx[i*e.in()+p*e.own:][:e.own], pixel)
			}
		}
		if dx != nil {
			dx[(i+1)*e.in()-1] = 0 // a class has no gradient
		}
	}
}

func (e *embedding) draw(rng *rand.Rand) {
	if e.init != nil {
		e.init(rng, e.w, 1, e.pixels*e.width)
		return
	}
	for i := range e.w {
		e.w[i] = float32(rng.NormFloat64())
	}
}

func (e *embedding) slots() []slot {
	return []slot{{"weight", []int{e.classes, e.pixels, e.width}, &e.w, &e.dw}}
}

func (e *embedding) clone(*parallel.Pool) layer {
	d := *e
	d.w, d.dw = append([]float32(nil), e.w...), make([]float32, len(e.dw))
	return &d
}
