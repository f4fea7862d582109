package results

import "github.com/conclave-dp/conclave/internal/pipeline"

// Result is what a run prints at its end, and the object of --format json.
type Result struct {
	Name     string `json:"name"`
	Pipeline string `json:"pipeline"`
	Protection
	Asked
	Rows    int               `json:"rows"`
	Outputs map[string]string `json:"outputs"`
	// Utility holds measurements on real test rows. NOT PRIVATE.
	Utility []UtilityResult `json:"utility_not_private,omitempty"`
	// HeldOut is the share of the units that the run held out of its training for these figures.
	HeldOut float64 `json:"held_out,omitempty"`
	// NotPrivate says that the rows are for comparison: real rows shaped or weighted them, and they have no
	// certificate.
	NotPrivate bool `json:"not_private,omitempty"`
	// Earlier are the runs that the stages followed. EpsilonSpent covers all of them together; Rounds, Queries and
	// Answered are the stages' own.
	Earlier []string `json:"earlier,omitempty"`
	// Notes say what the stages after training did.
	Notes []string `json:"notes,omitempty"`
	// Figures say how far the rows are from the real ones. The budget paid for them, so they may be shared.
	Figures []pipeline.Figure `json:"figures,omitempty"`
}

// Protection is a run's guarantee and its spending.
type Protection struct {
	Epsilon      float64 `json:"epsilon"`
	Delta        float64 `json:"delta"`
	Guarantee    string  `json:"guarantee"`
	EpsilonSpent float64 `json:"epsilon_spent"`
}

// Asked has the number of a run's questions, and of the teachers that answered.
type Asked struct {
	Rounds   int   `json:"rounds"`
	Queries  int64 `json:"queries"`
	Answered int64 `json:"answered"`
	Teachers int   `json:"teachers"`
	// TeachersLeast is the number of teachers in the round with the fewest; it is absent if all of them took part
	// in every round.
	TeachersLeast int `json:"teachers_least,omitempty"`
}

// UtilityResult is one classifier trained on synthetic and, for the ceiling, on
// real rows, both tested on real rows: AUROC of tables, accuracy of images. NOT
// PRIVATE.
type UtilityResult struct {
	Classifier        string   `json:"classifier"`
	SyntheticAUROC    *float64 `json:"synthetic_auroc,omitempty"`
	RealAUROC         *float64 `json:"real_auroc,omitempty"`
	SyntheticAccuracy *float64 `json:"synthetic_accuracy,omitempty"`
	RealAccuracy      *float64 `json:"real_accuracy,omitempty"`
}
