// Package figures puts our figures beside those of papers: it has the log of a bench, what papers report with its
// source, the tables of papers run on the same data, and the pages that are written from logs.
//
// Ours are means over seeds, never the best seed. They are compared with the same runs with coin flips for votes, and
// with models trained on real rows. All our figures come from real test rows: NOT PRIVATE.
package figures

import "fmt"

// Table is one table of a paper: a setting, and the reported figures for each data set.
type Table struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Source string `json:"source"`
	// Note says what a reader has to know to compare.
	Note           string  `json:"note"`
	Epsilon, Delta float64 `json:"-"`
	Sets           []Set   `json:"-"`
}

// Set is a row of a table: a data set with its splits, and their figures.
type Set struct {
	Data        string
	Train, Test string // splits named in the schema
	Teachers    int
	Rows        int // synthetic rows
	// Theirs reads their figures for the data set. Whoever only names the tables does not wait for it.
	Theirs func(data string) []Theirs
}

// Theirs is what a paper reports: the average over twelve classifiers.
type Theirs struct {
	Who              string  `json:"who"`
	AUROC            float64 `json:"auroc"`
	AveragePrecision float64 `json:"average_precision"`
}

// Tables are all tables that can be run.
func Tables() []Table { return []Table{pateGAN()} }

// Find returns the table with a name.
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
	return Table{
		Name: "pategan",
		Title: "PATE-GAN at epsilon 1: twelve classifiers trained on synthetic and tested on real rows (setting B), " +
			"average",
		Source: "Jordon, Yoon, van der Schaar 2019, PATE-GAN, Tables 2 and 5; Ganev, Annamalai, De " +
			"Cristofaro 2024, The Elusive Pursuit of Reproducing PATE-GAN: six public " +
			"implementations, figures of the authors' published notebook",
		Note: "theirs take for each classifier the best of several runs, and all six break their privacy claim; " +
			"ours are means over runs with a proven guarantee. Their credit training rows are the complete set; " +
			"ours, a public part of it, are a twelfth as many. The paper's epsilon depends on the votes, and it " +
			"does not hide that",
		Epsilon: 1, Delta: 1e-5,
		Sets: []Set{
			{"credit", "official_train", "official_test", 1000, 10_000, six},
			{"cervical_cancer", "train", "test", 100, 686, six},
			{"isolet", "train", "test", 1000, 6238, six},
			{"epileptic_seizure", "train", "test", 1000, 9200, six},
		},
	}
}

// six returns the figures of the six implementations, after the paper's own.
func six(data string) []Theirs {
	all := []Theirs{{
		"the paper", MustQuote("pategan", data, 1, "AUROC", "PATE-GAN"),
		MustQuote("pategan", data, 1, "average precision", "PATE-GAN"),
	}}
	for _, who := range []string{"real rows", "original", "updated", "synthcity", "turing", "borealis", "smartnoise"} {
		all = append(all, Theirs{
			who, MustQuote("ganev", data, 1, "AUROC", who), MustQuote("ganev", data, 1, "average precision", who),
		})
	}
	return all
}
