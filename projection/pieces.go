package projection

// knots divide [0, 1] into pieces, which are finer at both ends: with wide public bounds, most records are near
// one of them.
var knots = [...]float32{0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 1}

// PieceCount is the number of pieces of a number in [0, 1].
const PieceCount = len(knots) - 1

const pieceWeight = 0.5

// Pieces encodes a number of [0, 1] by its position in each of the fixed pieces of that range, like a thermometer:
// -1/4 below the piece, 1/4 above, and linear in between. Linear functions of the pieces are all functions of the
// number that are linear on each piece, so a narrow column needs no scaling taken from data. Their L2 norm is at
// most sqrt(PieceCount)/4.
func Pieces(dst []float32, v float32) {
	for k := range PieceCount {
		at := (v - knots[k]) / (knots[k+1] - knots[k])
		dst[k] = pieceWeight * (min(1, max(0, at)) - 0.5)
	}
}

// PiecesSlope returns the gradient with respect to the number v, given the gradient dy with respect to its pieces.
func PiecesSlope(dy []float32, v float32) float32 {
	for k := range PieceCount {
		if v < knots[k+1] || k == PieceCount-1 {
			return pieceWeight * dy[k] / (knots[k+1] - knots[k])
		}
	}
	return 0
}
