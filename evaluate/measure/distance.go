package measure

import (
	"math"
	"slices"
)

// KolmogorovSmirnov is the largest difference of the two empirical distribution
// functions. It sorts its arguments.
func KolmogorovSmirnov(a, b []float64) float64 {
	slices.Sort(a)
	slices.Sort(b)
	largest := 0.0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		at := math.Min(a[i], b[j])
		for i < len(a) && a[i] == at {
			i++
		}
		for j < len(b) && b[j] == at {
			j++
		}
		largest = math.Max(largest, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return largest
}

// TotalVariation is half the sum, over the values, of the difference of their
// shares.
func TotalVariation(a, b []float64) float64 {
	counts := map[float64][2]int{}
	for _, v := range a {
		c := counts[v]
		counts[v] = [2]int{c[0] + 1, c[1]}
	}
	for _, v := range b {
		c := counts[v]
		counts[v] = [2]int{c[0], c[1] + 1}
	}
	// Added up in a fixed order, so that the last digit is always the same.
	differences := make([]float64, 0, len(counts))
	for _, c := range counts {
		differences = append(differences, math.Abs(float64(c[0])/float64(len(a))-float64(c[1])/float64(len(b))))
	}
	slices.Sort(differences)
	sum := 0.0
	for _, d := range differences {
		sum += d
	}
	return math.Min(sum/2, 1)
}
