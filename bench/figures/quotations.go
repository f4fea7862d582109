package figures

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/config"
)

// papersYAML is all that is quoted of papers, in one place.
//
//go:embed papers.yaml
var papersYAML []byte

type quotations struct {
	Papers  map[string]string `yaml:"papers"` // how each is cited, by its short name
	Figures []quotation       `yaml:"figures"`
}

// quotation is what a paper reports for a data set at an epsilon (0: without privacy) by a measure.
type quotation struct {
	Paper   string  `yaml:"paper"`  // its short name
	Source  string  `yaml:"source"` // a table or place of the paper
	Data    string  `yaml:"data"`
	Epsilon float64 `yaml:"epsilon"`
	Measure string  `yaml:"measure"`
	// Methods are its figures, Errors standard errors where it has them.
	Methods map[string]float64 `yaml:"methods"`
	Errors  map[string]float64 `yaml:"errors"`
}

var allQuotations = sync.OnceValues(func() (*quotations, error) {
	q := &quotations{}
	if err := config.Decode(bytes.NewReader(papersYAML), q); err != nil {
		return nil, fmt.Errorf("papers.yaml: %w", err)
	}
	return q, nil
})

// cite is how a paper is cited.
func cite(paper string) (string, error) {
	q, err := allQuotations()
	if err != nil {
		return "", err
	}
	if q.Papers[paper] == "" {
		return "", fmt.Errorf("papers.yaml has no paper %q", paper)
	}
	return q.Papers[paper], nil
}

// quote finds what a paper reports. It fails if papers.yaml does not have it.
func quote(paper, data string, epsilon float64, measure string) (*quotation, error) {
	q, err := allQuotations()
	if err != nil {
		return nil, err
	}
	for i, f := range q.Figures {
		if f.Paper == paper && f.Data == data && f.Epsilon == epsilon && f.Measure == measure {
			return &q.Figures[i], nil
		}
	}
	return nil, fmt.Errorf("papers.yaml has nothing of %s on %s at epsilon %g by %s", paper, data, epsilon, measure)
}

// quoted is a paper's figure by one of its methods.
func quoted(paper, data string, epsilon float64, measure, method string) (value, error) {
	q, err := quote(paper, data, epsilon, measure)
	if err != nil {
		return value{}, err
	}
	v, has := q.Methods[method]
	if !has {
		return value{}, fmt.Errorf("papers.yaml has no %s of %s on %s by %s", method, paper, data, measure)
	}
	return value{mean: v, spread: q.Errors[method], seeds: 1}, nil
}

// MustQuote is a paper's figure. It panics if papers.yaml has none, which a test of the caller finds.
func MustQuote(paper, data string, epsilon float64, measure, method string) float64 {
	v, err := quoted(paper, data, epsilon, measure, method)
	if err != nil {
		panic(err)
	}
	return v.mean
}
