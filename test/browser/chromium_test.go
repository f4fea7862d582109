package browser

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/conclave-dp/conclave/internal/testkit"
)

var shots = flag.String("shots", "", "folder for pictures of the pages")

// patience bounds each wait.
const patience = 60 * time.Second

// axeFile is axe-core in the version of package-lock.json.
const axeFile = "node_modules/axe-core/axe.min.js"

// widths are those of a desktop and of a phone.
var widths = []int64{1280, 390}

// tab is a page in its own Chromium.
type tab struct {
	t    *testing.T
	ctx  context.Context
	axe  string
	name string

	mu     sync.Mutex
	errors []string // from the browser's console
}

// needed returns the path of Chromium and the script of axe-core, or skips the test.
func needed(t *testing.T) (program string, axe []byte) {
	t.Helper()
	for _, candidate := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(candidate); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium on this machine")
	}
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		t.Skip("there is no axe-core: run npm ci --ignore-scripts in test/browser")
	}
	return program, axe
}

// newTab starts a Chromium with its own profile, or skips the test.
func newTab(t *testing.T, name string) *tab {
	t.Helper()
	program, axe := needed(t)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.NoFirstRun, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(options...))
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, axe: string(axe), name: name}
	testkit.Must(t, chromedp.Do(ctx)) // starts the browser, which must outlive the first call
	testkit.Must(t, chromedp.Listen(ctx, b.listen))
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, console := cdp.Call(ctx, tab, runtime.Enable, cdp.Empty{})
		_, lines := cdp.Call(ctx, tab, log.Enable, cdp.Empty{})
		return errors.Join(console, lines)
	}))
	return b
}

// listen collects the browser's errors.
func (b *tab) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			raw, _ := json.Marshal(e.Args)
			text = string(raw)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors = append(b.errors, text)
	}
}

// do does something on the page.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.gaveUp(err)
	}
}

// value is the result of a script on the page.
func value[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.gaveUp(err)
	}
	return v
}

func (b *tab) gaveUp(err error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience/10)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	b.t.Fatalf("%s: %v; the page says:\n%s", b.name, err, text)
}

// goes opens a URL and waits for its main part.
func (b *tab) goes(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS("#main h1")))
}

// clicks clicks on something, and waits until something else is visible.
func (b *tab) clicks(what, then string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(what)), chromedp.WaitVisible(chromedp.CSS(then)))
}

// says waits until the self-updating page has these texts.
func (b *tab) says(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		quoted, err := json.Marshal(text)
		testkit.Must(b.t, err)
		testkit.Eventually(b.t, b.name+"'s page to say "+text, func() bool {
			return value[bool](b, "Boolean(document.querySelector('main')?.innerText.includes("+string(quoted)+"))")
		})
	}
}

// fine checks the page at both widths: axe finds nothing serious, nothing overflows, the browser reports no error.
// Screenshots go to the folder of -shots.
func (b *tab) fine(shot string) {
	b.t.Helper()
	for _, width := range widths {
		b.do(chromedp.EmulateViewport(width, 900))
		if out := value[int](b, "document.documentElement.scrollWidth - window.innerWidth"); out > 0 {
			b.t.Errorf("%s at %d pixels: the page is %d pixels too wide", shot, width, out)
		}
		b.look(shot, width)
		if *shots != "" {
			png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			testkit.Must(b.t, err)
			testkit.Must(b.t, os.MkdirAll(*shots, 0o755))
			file := filepath.Join(*shots, fmt.Sprintf("%s-%s-%d.png", b.name, shot, width))
			testkit.Must(b.t, os.WriteFile(file, png, 0o644))
		}
	}
	b.do(chromedp.EmulateViewport(widths[0], 900))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.t.Errorf("%s: the browser says %s", shot, e)
	}
	b.errors = nil
}

// dark shows pages in the dark scheme, with reduced motion.
func (b *tab) dark() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"},
				{Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

// look runs axe-core on the page.
func (b *tab) look(shot string, width int64) {
	b.t.Helper()
	type violation struct {
		ID     string `json:"id"`
		Impact string `json:"impact"`
		Help   string `json:"help"`
		Nodes  []struct {
			HTML string `json:"html"`
			Says string `json:"failureSummary"`
		} `json:"nodes"`
	}
	if !value[bool](b, "typeof axe !== 'undefined'") {
		b.do(chromedp.Evaluate[chromedp.Void](b.axe))
	}
	found := value[[]violation](b, "axe.run({iframes: false}).then(r => r.violations)")
	for _, v := range found {
		text := fmt.Sprintf("%s at %d pixels: %s (%s): %s", shot, width, v.ID, v.Impact, v.Help)
		for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
			text += "\n    " + n.HTML + "\n    " + strings.ReplaceAll(n.Says, "\n", "\n    ")
		}
		if v.Impact == "serious" || v.Impact == "critical" {
			b.t.Error(text)
		} else {
			b.t.Log(text)
		}
	}
}
