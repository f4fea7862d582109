package vector

import "math"

func leakyPortable(dst, x []float32, slope float32, keep uint32) {
	for i, v := range x {
		if v < 0 {
			v = math.Float32frombits(math.Float32bits(slope*v) & keep)
		}
		dst[i] = v
	}
}

func leakyGradPortable(dx, dy, y []float32, slope float32, keep uint32) {
	for i, v := range y {
		d := dy[i]
		if v <= 0 {
			d = math.Float32frombits(math.Float32bits(slope*d) & keep)
		}
		dx[i] = d
	}
}

func addScaledPortable(dst, x []float32, a float32) {
	for i, v := range x {
		dst[i] += a * v
	}
}

func scalePortable(dst []float32, a float32) {
	for i := range dst {
		dst[i] *= a
	}
}

func lerpPortable(dst, x []float32, keep, take float32) {
	for i, v := range x {
		dst[i] = keep*dst[i] + take*v
	}
}

// dotPortable is the sum of x[i]*y[i] in a fixed order, that of the assembly with vectors of 8
// lanes: term i of the whole blocks of 32 is added to sum i mod 32, and term i of the rest to sum
// i mod 8. The sums 0 to 7, 8 to 15 and so on are added as (0+1)+(2+3), and the 8 sums of that in
// pairs, those 4 apart first.
func dotPortable(x, y []float32) float32 {
	const lanes = 8
	var s [4 * lanes]float32
	for len(x) >= len(s) {
		a, b := x[:len(s)], y[:len(s)]
		for i := range s {
			s[i] += a[i] * b[i]
		}
		x, y = x[len(s):], y[len(s):]
	}
	for i, v := range x {
		s[i%lanes] += v * y[i]
	}
	for i := range lanes {
		s[i] = (s[i] + s[lanes+i]) + (s[2*lanes+i] + s[3*lanes+i])
	}
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[n+i]
		}
	}
	return s[0]
}

// addRowsPortable keeps the sums of as many columns at a time as its arrays hold.
func addRowsPortable(dst, x []float32, rows, cols int) {
	const block = 64
	for from := 0; from < cols; from += block {
		n := min(block, cols-from)
		var s [4][block]float32
		for i := range rows {
			sum := &s[i%4]
			if i >= rows&^3 {
				sum = &s[0]
			}
			for j, v := range x[i*cols+from:][:n] {
				sum[j] += v
			}
		}
		for j := range n {
			dst[from+j] += (s[0][j] + s[1][j]) + (s[2][j] + s[3][j])
		}
	}
}

func adamPortable(w, m, v, g []float32, c *[8]float32) {
	keep1, take1, keep2, take2, root, eps, keep, rate := c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
	w, m, v = w[:len(g)], m[:len(g)], v[:len(g)]
	for i, d := range g {
		m[i] = keep1*m[i] + take1*d
		v[i] = keep2*v[i] + take2*d*d
		w[i] = keep*w[i] - rate*(m[i]/(sqrt(v[i])*root+eps))
	}
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func sgdPortable(w, g []float32, keep, rate float32) {
	for i, d := range g {
		w[i] = keep*w[i] - rate*d
	}
}

func momentumPortable(w, m, g []float32, keep, rate, momentum float32) {
	for i, d := range g {
		m[i] = momentum*m[i] + d
		w[i] = keep*w[i] - rate*m[i]
	}
}
