package node

import "github.com/conclave-dp/conclave/internal/nn"

// standardize expresses the node's own records in the units of a round.
func (n *Node) standardize(units *nn.Standard) []nn.Examples {
	w := units.Width()
	if n.standard == nil {
		n.standard = make([]nn.Examples, len(n.examples))
	}
	for t, e := range n.examples {
		if n.standard[t].ByClass == nil {
			n.standard[t].ByClass = make([][]float32, n.classes)
		}
		for c, x := range e.ByClass {
			rows := len(x) / n.features
			if n.standard[t].ByClass[c] == nil {
				n.standard[t].ByClass[c] = make([]float32, rows*w)
			}
			for i := range rows {
				units.Apply(n.standard[t].ByClass[c][i*w:(i+1)*w], x[i*n.features:(i+1)*n.features], c)
			}
		}
	}
	return n.standard
}
