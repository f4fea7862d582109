package browser

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs"
	pages "github.com/conclave-dp/conclave/internal/console/cluster"
	"github.com/conclave-dp/conclave/internal/console/consoletest"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// With a thousand nodes and ten thousand runs pages stay readable, also in dark mode and without the script.
func TestALargeClusterStaysReadable(t *testing.T) {
	needed(t)
	from := consoletest.New(1000, 10_000)
	c, err := pages.New(pages.Options{
		Listen: "127.0.0.1:0", Config: student.Config{Dataset: consoletest.Dataset}, Log: zap.NewNop(),
	}, certs.Identity{Role: certs.RoleOperator, Name: "olga"}, from, t.TempDir())
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx) }()
	t.Cleanup(func() { cancel(); testkit.Must(t, testkit.Receive(t, done)) })
	b := newTab(t, "large")
	b.goes(c.Address())
	at := base(c.Address())
	b.says("960 of 1000")
	b.fine("overview")
	for page, path := range map[string]string{
		"runs": "/runs", "nodes": "/nodes?filter=stalled", "budgets": "/budgets", "certificates": "/certificates",
	} {
		b.goes(at + path)
		if n := value[int](b, "document.querySelectorAll('*').length"); n > 1500 {
			t.Errorf("%s has %d elements", page, n)
		}
		b.fine(page)
	}

	// A filter applies at once, a search with its button, and pages can be turned.
	b.goes(at + "/runs")
	b.do(chromedp.Evaluate[chromedp.Void]("const s = document.querySelector('#filter'); s.value = 'failed'; "+
		"s.dispatchEvent(new Event('change', {bubbles: true}))"), chromedp.WaitVisible(chromedp.CSS(".state.failed")))
	b.says("1 to 50 of 100 found among 10000")
	b.clicks("a[rel=next]", "a[rel=prev]")
	b.says("51 to 100 of 100 found among 10000")
	b.do(chromedp.SetValue(chromedp.CSS("#q"), "00105"))
	b.clicks("form.find button", ".state.failed")
	b.says("1 to 1 of 1 found among 10000", "run-00105")

	// Typed text stays while the page updates.
	b.goes(at + "/queue")
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), "half a wo"))
	from.Change("run-09998", func(r *conclavev1.RunStatus) { r.Reason = "waiting for a worker" })
	b.says("waiting for a worker")
	if got := value[string](b, "document.activeElement.value"); got != "half a wo" {
		t.Errorf("what was typed became %q", got)
	}

	b.dark()
	for _, path := range []string{"/", "/nodes", "/runs/run-09997"} {
		b.goes(at + path)
		b.fine("dark" + map[string]string{"/": "-overview", "/nodes": "-nodes"}[path])
	}
}
