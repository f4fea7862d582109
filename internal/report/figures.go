package report

import "github.com/conclave-dp/conclave/internal/pipeline"

// paid are the figures that the budget paid for. They need no mark, because they were computed from noisy releases.
func paid(figures []pipeline.Figure) (list []finding) {
	for _, f := range figures {
		list = append(list, finding{Name: f.Name, Value: f.String(),
			Says: "The brackets give a 95% confidence interval."})
	}
	return list
}

// figures writes the figures.
func (m *markdown) figures(p Page) {
	if list := paid(p.Figures); len(list) > 0 {
		m.line("## How far the rows are from the real ones")
		m.findings(list)
	}
}
