package papers

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/config"
)

// text is all that is quoted of papers, in one place.
//
//go:embed papers.yaml
var text []byte

type quotations struct {
	Papers  map[string]string `yaml:"papers"` // how each is cited, by its short name
	Figures []Quotation       `yaml:"figures"`
}

// Quotation is what a paper reports for a data set at an epsilon (0: without privacy) by a measure.
type Quotation struct {
	Paper   string  `yaml:"paper"`  // its short name
	Source  string  `yaml:"source"` // a table or place of the paper
	Data    string  `yaml:"data"`
	Epsilon float64 `yaml:"epsilon"`
	Measure string  `yaml:"measure"`
	// Methods are its figures, Errors standard errors where it has them.
	Methods map[string]float64 `yaml:"methods"`
	Errors  map[string]float64 `yaml:"errors"`
}

var quoted = sync.OnceValues(func() (*quotations, error) {
	q := &quotations{}
	if err := config.Decode(bytes.NewReader(text), q); err != nil {
		return nil, fmt.Errorf("papers.yaml: %w", err)
	}
	return q, nil
})

// Cite is how a paper is cited.
func Cite(paper string) (string, error) {
	q, err := quoted()
	if err != nil {
		return "", err
	}
	if q.Papers[paper] == "" {
		return "", fmt.Errorf("papers.yaml has no paper %q", paper)
	}
	return q.Papers[paper], nil
}

// Quote finds what a paper reports. It fails if papers.yaml does not have it.
func Quote(paper, data string, epsilon float64, measure string) (*Quotation, error) {
	q, err := quoted()
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

// Must is one figure from papers.yaml. It panics if there is none, which a test of the caller finds.
func Must(paper, data string, epsilon float64, measure, method string) float64 {
	q, err := Quote(paper, data, epsilon, measure)
	if err != nil {
		panic(err)
	}
	v, ok := q.Methods[method]
	if !ok {
		panic(fmt.Errorf("papers.yaml has no %s of %s on %s by %s", method, paper, data, measure))
	}
	return v
}
