package projection

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// The directions are orthonormal: what is projected back and forth is kept, and lengths
// of what the directions span, too. All of them together keep every image.
func TestCosinesAreOrthonormal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ height, width, channels, side int }{{6, 9, 2, 4}, {8, 8, 1, 8}, {1, 1, 3, 1}} {
		p, err := NewCosines(c.height, c.width, c.channels, c.side)
		testkit.Must(t, err)
		const n = 3
		k, d := p.Spec().Directions, p.Spec().Features
		coefficients, image, again := draw(rng, n*k), make([]float32, n*d), make([]float32, n*k)
		p.Back(image, coefficients, n)
		p.Project(again, image, n)
		for i, v := range coefficients {
			if math.Abs(float64(v-again[i])) > 1e-5 {
				t.Fatalf("%v: coefficient %d is %v after there and back, was %v", c, i, again[i], v)
			}
		}
		if a, b := dot(coefficients, coefficients), dot(image, image); math.Abs(a-b) > 1e-4*a {
			t.Errorf("%v: squared length %v became %v", c, a, b)
		}
		if k == d {
			x := draw(rng, n*d)
			p.Project(again, x, n)
			p.Back(image, again, n)
			for i, v := range x {
				if math.Abs(float64(v-image[i])) > 1e-5 {
					t.Fatalf("%v: pixel %d is %v after there and back, was %v", c, i, image[i], v)
				}
			}
		}
	}
}

// The first coefficient is the mean times the root of the pixels, channel by channel.
func TestTheFirstCosineIsTheMean(t *testing.T) {
	p, err := NewCosines(4, 4, 2, 2)
	testkit.Must(t, err)
	x, got := make([]float32, 32), make([]float32, 8)
	for i := range 16 {
		x[2*i], x[2*i+1] = 1, float32(i)
	}
	p.Project(got, x, 1)
	if math.Abs(float64(got[0]-4)) > 1e-5 || math.Abs(float64(got[1]-30)) > 1e-4 || math.Abs(float64(got[2])) > 1e-5 {
		t.Errorf("coefficients %v, want 4 and 30 first and no wave in the constant channel", got)
	}
}

func TestCosinesAreChecked(t *testing.T) {
	for _, c := range [][4]int{{0, 4, 1, 1}, {4, 4, 0, 1}, {4, 4, 1, 0}, {4, 3, 1, 4}, {4096, 4096, 1, 64}} {
		if _, err := NewCosines(c[0], c[1], c[2], c[3]); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
}
