package projection

import (
	"fmt"
	"math/rand/v2"
)

// Frequencies draws the directions of count random waves of vectors, shape [features, count]: independent normal
// numbers of standard deviation spread, the inverse length scale of the Gaussian kernel that the waves approximate
// (Rahimi and Recht 2007). They depend only on the seed, with every version of the standard library.
func Frequencies(features, count int, spread float64, seed uint64) ([]float32, error) {
	if features < 1 || count < 1 || count > maxMatrix/features {
		return nil, fmt.Errorf("projection: %d frequencies of vectors of %d numbers; use 1 of each or more, and at "+
			"most %d numbers together", count, features, maxMatrix)
	}
	if !(spread > 0 && spread <= 1e6) {
		return nil, fmt.Errorf("projection: frequencies of spread %v; use a number above 0 and at most 1e6", spread)
	}
	data := make([]float32, features*count)
	bits := rand.NewPCG(seed, 0xf4e9)
	for i := 0; i < len(data); i += 2 {
		a, b := normals(bits)
		data[i] = float32(spread * a)
		if i+1 < len(data) {
			data[i+1] = float32(spread * b)
		}
	}
	return data, nil
}
