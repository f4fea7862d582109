// Package papers runs the tables of published papers on the same data and puts the
// figures side by side.
//
// Theirs are quoted with their source. Ours are means over seeds, never the best
// of them, beside the same runs with coin flips for votes and beside models
// trained on real rows. All of ours come from real test rows: NOT PRIVATE.
package papers

import "fmt"

// Table is one table of a paper: a setting, and what they report for each data
// set.
type Table struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Source string `json:"source"`
	// Note says what has to be known to compare.
	Note           string  `json:"note"`
	Epsilon, Delta float64 `json:"-"`
	Sets           []Set   `json:"-"`
}

// Set is a row of a table: a data set with its splits, and their figures.
type Set struct {
	Data        string
	Train, Test string // splits named in the schema
	Teachers    int
	Theirs      []Theirs
}

// Theirs is what a paper reports: the average over twelve classifiers.
type Theirs struct {
	Who              string  `json:"who"`
	AUROC            float64 `json:"auroc"`
	AveragePrecision float64 `json:"average_precision"`
}

// Tables are all that can be run.
func Tables() []Table { return []Table{pateGAN()} }

// Find returns the table of a name.
func Find(name string) (Table, error) {
	known := ""
	for _, t := range Tables() {
		if t.Name == name {
			return t, nil
		}
		known += " " + t.Name
	}
	return Table{}, fmt.Errorf("table %q is not known; use one of:%s", name, known)
}

// pateGAN is the table of the PATE-GAN paper as Ganev et al. repeated it with six
// public implementations.
func pateGAN() Table {
	six := func(pairs ...float64) []Theirs {
		var out []Theirs
		for i, who := range []string{"real rows", "original", "updated", "synthcity", "turing", "borealis",
			"smartnoise"} {
			out = append(out, Theirs{who, pairs[2*i], pairs[2*i+1]})
		}
		return out
	}
	return Table{
		Name: "pategan",
		Title: "PATE-GAN at epsilon 1: twelve classifiers trained on synthetic and tested on real rows (setting B), " +
			"average",
		Source: "Ganev, Annamalai, De Cristofaro 2024, The Elusive Pursuit of Reproducing PATE-GAN: six public " +
			"implementations, figures of the authors' published notebook",
		Note: "theirs take for each classifier the best of several runs, and all six break their privacy claim; " +
			"ours are means over runs with a proven guarantee. Their credit training rows are the complete set; " +
			"ours, a public part of it, are a quarter as many",
		Epsilon: 1, Delta: 1e-5,
		Sets: []Set{
			{"credit", "official_train", "official_test", 1000, six(
				0.8176, 0.5475, 0.5000, 0.0017, 0.5000, 0.0017, 0.5172, 0.0320, 0.5000, 0.0017, 0.6300, 0.1635, 0.7358,
				0.1174)},
			{"cervical_cancer", "train", "test", 100, six(
				0.9400, 0.6192, 0.9265, 0.5280, 0.8739, 0.5129, 0.8584, 0.4919, 0.5000, 0.0640, 0.9431, 0.5606, 0.8025,
				0.4536)},
			{"isolet", "train", "test", 1000, six(
				0.9678, 0.9002, 0.8342, 0.5766, 0.5861, 0.2510, 0.6292, 0.2728, 0.5000, 0.1924, 0.6219, 0.2889, 0.6152,
				0.2683)},
			{"epileptic_seizure", "train", "test", 1000, six(
				0.8103, 0.7403, 0.6867, 0.5854, 0.6187, 0.4892, 0.7165, 0.5643, 0.7425, 0.5856, 0.6730, 0.5301, 0.6963,
				0.5774)},
		},
	}
}
