package classify

// Threshold is the score above which a classifier calls a row positive, which stands for
// a probability of one half: 0.5 of models whose scores are shares or probabilities, and
// 0 of those that give log odds or distances from a boundary.
func Threshold(c Classifier) float64 {
	if t, ok := c.(interface{ threshold() float64 }); ok {
		return t.threshold()
	}
	return 0
}

func (*Logistic) threshold() float64     { return 0.5 }
func (*DecisionTree) threshold() float64 { return 0.5 }
func (*bagged) threshold() float64       { return 0.5 }
