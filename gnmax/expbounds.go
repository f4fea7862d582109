package gnmax

import "math/big"

// expBounds returns whole numbers with low <= 2^p exp(-n/denominator) <= high, for n >= 0. The two bounds are
// close.
//
// With r = n/(denominator 2^j) at most 1/2, exp(-r) lies between two consecutive partial sums of its series, whose
// terms decrease and alternate in sign. Squaring it j times gives exp(-n/denominator). Each step is rounded down
// for low and up for high.
func expBounds(n, denominator *big.Int, p uint) (low, high *big.Int) {
	halvings := uint(max(0, n.BitLen()-denominator.BitLen()+2))
	precision := p + 2*halvings + 32
	denominator = new(big.Int).Lsh(denominator, halvings)
	one := new(big.Int).Lsh(big.NewInt(1), precision)
	low, high = new(big.Int).Set(one), new(big.Int).Set(one)
	least, most := new(big.Int).Set(one), new(big.Int).Set(one) // the term is between them
	for i := int64(1); ; i++ {
		divisor := new(big.Int).Mul(denominator, big.NewInt(i))
		least.Quo(least.Mul(least, n), divisor)
		most.Add(most.Quo(most.Mul(most, n), divisor), big.NewInt(1))
		if least.Sign() == 0 && i%2 == 1 { // the rest of the series is negative, and at most this term in size
			low.Sub(low, most)
			break
		}
		if i%2 == 1 {
			low.Sub(low, most)
			high.Sub(high, least)
		} else {
			low.Add(low, least)
			high.Add(high, most)
		}
	}
	low = nonNegative(low)
	for range halvings {
		low, high = scaledDown(low, low, precision), scaledUp(high, high, precision)
	}
	high.Add(high.Rsh(high, precision-p), big.NewInt(1))
	return low.Rsh(low, precision-p), high
}

func nonNegative(x *big.Int) *big.Int {
	if x.Sign() < 0 {
		return new(big.Int)
	}
	return x
}

// scaledDown is a b/2^p, rounded down.
func scaledDown(a, b *big.Int, p uint) *big.Int {
	x := new(big.Int).Mul(a, b)
	return x.Rsh(x, p)
}

// scaledUp is a b/2^p, rounded up, or one more.
func scaledUp(a, b *big.Int, p uint) *big.Int {
	x := scaledDown(a, b, p)
	return x.Add(x, big.NewInt(1))
}
