package report

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var screenshots = flag.String("screenshots", "", "folder for pictures of the pages, as the browser test sees them")

// axe is the path of axe.min.js of the npm package axe-core, if available.
var axe = flag.String("axe", "", "axe.min.js of the npm package axe-core, to look for faults by it too")

// axeScript runs axe and returns its findings, one line for each rule.
const axeScript = `axe.run().then(r => r.violations.map(v => "axe: " + v.id + ": " + v.help + ": " + v.nodes[0].html))`

// faultsScript lists what is wrong with a page as somebody sees it.
//
//go:embed testdata/faults.js
var faultsScript string

// browser starts Chromium, or skips the test if there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes some seconds")
	}
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium or Chrome is installed, so nobody looks at the page")
	}
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(limited, chromedp.WithAllocatorOptions(chromedp.ExecPath(path)))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// complaints gathers what a browser reports of a page.
type complaints struct {
	mu   sync.Mutex
	list []string
}

func (c *complaints) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *complaints) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

// listen collects console messages, exceptions, violations of the security policy, and every request except the
// page's.
func (c *complaints) listen(t *testing.T, ctx context.Context, own string) {
	t.Helper()
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			c.add("console: %s %v", e.Type, e.Args)
		case *runtime.EventExceptionThrown:
			c.add("exception: %v", e.ExceptionDetails)
		case *log.EventEntryAdded:
			c.add("log: %s %s", e.Entry.Level, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; u != own && !strings.HasPrefix(u, "data:") {
				c.add("request: %s", u)
			}
		}
	})
	testkit.Must(t, err)
}

// visit opens a page and returns its faults.
func visit(ctx context.Context, path string) ([]string, error) {
	err := chromedp.Do(ctx,
		chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			_, network := cdp.Call(ctx, tab, network.Enable, network.EnableParams{})
			_, console := cdp.Call(ctx, tab, runtime.Enable, cdp.Empty{})
			_, log := cdp.Call(ctx, tab, log.Enable, cdp.Empty{})
			return errors.Join(network, console, log)
		}),
		chromedp.Navigate(address(path)))
	if err != nil {
		return nil, err
	}
	return chromedp.Run(ctx, chromedp.Evaluate[[]string](faultsScript))
}

func address(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func TestPagesInABrowser(t *testing.T) {
	ctx := browser(t)
	full := fullPage(t)
	full.Points = longPanels()
	full.Images = append(full.Images, picture.Sheet{Name: "a large sheet", PNG: squares(t, 2000, 300)})
	c, rounds := example(t)
	plain := Page{Certificate: c, Rounds: rounds[:1], Correlations: picture.NewCorrelations(clinic(t, 100, 1, 0))}
	for _, p := range []struct {
		name    string
		page    Page
		schemes []string
	}{{"full", full, []string{"light", "dark"}}, {"wide", widePage(t, 100), []string{"light"}},
		{"stages", stagesPage(t), []string{"light", "dark"}}, {"plain", plain, []string{"dark"}}} {
		path := filepath.Join(t.TempDir(), p.name+".html")
		testkit.Must(t, os.WriteFile(path, []byte(write(t, p.page)), 0o644))
		for _, scheme := range p.schemes {
			for _, width := range []int64{1280, 390} {
				t.Run(fmt.Sprintf("%s/%s/%d", p.name, scheme, width), func(t *testing.T) {
					look(t, ctx, path, "screen", scheme, width)
				})
			}
		}
		t.Run(p.name+"/print", func(t *testing.T) { look(t, ctx, path, "print", "light", 720) })
	}
}

// look opens a page in a new tab and fails on anything wrong with it.
func look(t *testing.T, ctx context.Context, path, media, scheme string, width int64) {
	t.Helper()
	tab, cancel := chromedp.NewContext(ctx)
	defer cancel()
	var said complaints
	said.listen(t, tab, address(path))
	err := chromedp.Do(tab, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, size := cdp.Call(ctx, tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500,
		})
		_, colours := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return errors.Join(size, colours)
	}))
	testkit.Must(t, err)
	faults, err := visit(tab, path)
	testkit.Must(t, err)
	faults = append(faults, byAxe(t, tab)...)
	for _, f := range append(faults, said.take()...) {
		t.Error(f)
	}
	if *screenshots != "" {
		picture, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
		testkit.Must(t, err)
		name := strings.ReplaceAll(strings.TrimPrefix(t.Name(), "TestPagesInABrowser/"), "/", "-") + ".png"
		testkit.Must(t, errors.Join(os.MkdirAll(*screenshots, 0o755),
			os.WriteFile(filepath.Join(*screenshots, name), picture, 0o644)))
	}
}

// byAxe are the faults that axe, if available, finds in an open page.
func byAxe(t *testing.T, tab context.Context) []string {
	t.Helper()
	if *axe == "" {
		return nil
	}
	found, err := chromedp.Run(tab, chromedp.Evaluate[[]string](string(testkit.Read(t, *axe))+";"+axeScript,
		chromedp.EvalAwaitPromise))
	testkit.Must(t, err)
	return found
}

// The test above detects faults.
func TestTheBrowserTestSeesFaults(t *testing.T) {
	ctx := browser(t)
	path := filepath.Join(t.TempDir(), "bad.html")
	text := `<!doctype html><title>bad</title><style>p{color:#aaa;background:#fff}</style><h1>x</h1><h3>y</h3>
<p>pale</p><div style="width:5000px">wide</div><svg width="50" height="20"><text x="30" y="15">cut label</text></svg>
<img src="missing.png"/><script>console.error("said"); throw new Error("thrown")</script>`
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	var said complaints
	said.listen(t, ctx, address(path))
	faults, err := visit(ctx, path)
	testkit.Must(t, err)
	found := byAxe(t, ctx)
	if *axe != "" && !strings.Contains(strings.Join(found, "\n"), "axe: image-alt") {
		t.Errorf("axe does not see an image without a text: %q", found)
	}
	all := strings.Join(append(faults, said.take()...), "\n")
	for _, want := range []string{"wider than the window", "contrast", "cut off", "no name", "heading",
		"no alternative", "console", "exception", "request: file://"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was not found; what was found:\n%s", want, all)
		}
	}
}
