package local

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// A masked run's ledger names its group, with the keys of its nodes, and its certificate and reports agree.
func TestAMaskedRunSaysSo(t *testing.T) {
	t.Parallel()
	spec, _, out := begin(t, runOn("table.csv", embedding+"aggregation: {masked: true}\n"))
	result, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	raw := testkit.Read(t, result.Outputs["ledger"])
	v, err := ledger.VerifyStrict(bytes.NewReader(raw))
	testkit.Must(t, err)
	g := v.Runs["small"].Masked
	if g == nil || len(g.Members) != 2 || g.Quorum != 2 || g.Colluding != 1 || g.Members[0].Site != "s0" ||
		g.Members[0].Key.Hex() != spec.Aggregation.Members[0].Key {
		t.Fatalf("the ledger says %+v, the run %+v", g, spec.Aggregation)
	}
	c, err := certificate.Read(result.Outputs["certificate"])
	testkit.Must(t, err)
	testkit.Must(t, c.Verify(bytes.NewReader(raw)))
	c.Masked = nil
	if err := c.Verify(bytes.NewReader(raw)); !errors.Is(err, certificate.ErrMasked) {
		t.Errorf("a certificate without masks: %v", err)
	}
	for _, form := range []string{"report", "report_md", "report_json"} {
		if text := string(testkit.Read(t, result.Outputs[form])); !strings.Contains(text, "asked sums of 2 sites") {
			t.Errorf("%s does not say that it was masked", form)
		}
	}
}

// A masked run of images that names no pipeline has its labels from a rule, whose noise three sites draw.
func TestAMaskedRunOfImagesHasNewLabels(t *testing.T) {
	t.Parallel()
	spec, _, out := begin(t, runOn("the-images.idx", "embed: {quorum: 1, fit: {steps: 200, batch: 64}, student: "+
		"{warp: 0}}\nrelabel: {directions: 20}\naggregation: {masked: true}\nprivacy: {epsilon: 400, "+
		"delta: 1e-5}\n", 0.3, 0.3, 0.4))
	if spec.Pipeline != "embed" || !slices.Equal(spec.Post, []string{"relabel"}) {
		t.Fatalf("the run has pipeline %s and post %q", spec.Pipeline, spec.Post)
	}
	result, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	c := check(t, spec, result, out, map[string]int{"embedding": 1, "strokes": 1})
	if c.Masked == nil || c.Masked.Sites != 3 || len(result.Notes) != 1 ||
		!strings.Contains(result.Notes[0], "of 50 images got another label than the generator's") {
		t.Errorf("the certificate says %+v, the run %q", c.Masked, result.Notes)
	}
	rows, err := tabular.Read(testkit.Value(spec.LoadSchema()), result.Outputs["synthetic"], tabular.Options{})
	testkit.Must(t, err)
	x, err := idx.FromTable(rows)
	testkit.Must(t, err)
	right := 0
	for i, class := range x.Classes {
		if dark := x.Image(i)[56] < x.Image(i)[7]; dark == (class == 1) { // lower left and upper right
			right++
		}
	}
	if right < 38 {
		t.Errorf("%d of 50 labels are right", right)
	}
}

// A masked run pays for a figure of quality, whose noise the sites draw.
func TestAMaskedRunHasAFigure(t *testing.T) {
	t.Parallel()
	spec, _, out := begin(t, runOn("table.csv", embedding+"aggregation: {masked: true}\nquality: {budget: 0.9}\n"))
	result, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	if len(result.Figures) != 2 || result.Figures[0].Check() != nil || result.Figures[0].High < 0.05 {
		t.Errorf("figures %+v, notes %q", result.Figures, result.Notes)
	}
}
