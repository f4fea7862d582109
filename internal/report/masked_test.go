package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Each form of a masked run's report says which sites masked it and against whom its figures hold; other reports do
// not.
func TestReportsOfMaskedRuns(t *testing.T) {
	c, rounds := example(t)
	g := masking.Group{Quorum: 3, Colluding: 1}
	said := []string{"asked sums of 3 sites; up to 1 of them may collude", "noise factor 1.22",
		"epsilon protects against those who see the releases"}
	for _, masked := range []*certificate.Masked{nil, {Sites: 3, Quorum: 3, Colluding: 1, NoiseFactor: g.Surplus(3)}} {
		c.Masked = masked
		p := Page{Certificate: c, Rounds: rounds}
		var page, markdown, file bytes.Buffer
		testkit.Must(t, WriteHTML(&page, p))
		testkit.Must(t, WriteMarkdown(&markdown, p))
		testkit.Must(t, WriteJSON(&file, p))
		for form, text := range map[string]string{
			"html": page.String(), "markdown": markdown.String(), "json": file.String(),
		} {
			for _, want := range said {
				if strings.Contains(text, want) != (masked != nil) {
					t.Errorf("%s of %v: says %q: %v", form, masked, want, masked == nil)
				}
			}
		}
		f, err := ReadJSON(file.Bytes())
		testkit.Must(t, err)
		if (f.Masked != "") != (masked != nil) {
			t.Errorf("report.json of %v says %q", masked, f.Masked)
		}
		if masked != nil && *f.Certificate.Masked != *masked {
			t.Errorf("report.json has %v", f.Certificate.Masked)
		}
	}
}
