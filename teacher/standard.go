package teacher

import "github.com/conclave-dp/conclave/nn"

// standardize expresses the question's records and the node's own in units of
// the question's training records, and returns the node's. The units are the
// student's doing and not private.
func (n *Node) standardize(a *asked) ([]nn.Examples, error) {
	units, err := nn.NewStandard(a.training.x, a.training.classes, n.features, n.classes, n.numbers)
	if err != nil {
		return nil, err
	}
	a.training.x = units.All(a.training.x, a.training.classes)
	a.queries.x = units.All(a.queries.x, a.queries.classes)
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
	return n.standard, nil
}
