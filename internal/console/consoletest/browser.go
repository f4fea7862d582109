package consoletest

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	neturl "net/url"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Browser is a browser that opened a console.
type Browser struct {
	http.Client
	Base string // prefix of the console's URLs
	t    testing.TB
}

// Serve serves a console until the test ends, and opens it with its address.
func Serve(t testing.TB, address string, serve func(context.Context) error) *Browser {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	jar, err := cookiejar.New(nil)
	testkit.Must(t, err)
	b := &Browser{Client: http.Client{Jar: jar}, Base: address[:strings.Index(address, "/open")], t: t}
	t.Cleanup(func() {
		b.CloseIdleConnections()
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
	if status, text := b.Ask(http.MethodGet, address, "", nil); status != http.StatusOK {
		t.Fatalf("the console does not open: %d %s", status, text)
	}
	return b
}

// Get returns a page.
func (b *Browser) Get(path string) string {
	b.t.Helper()
	status, text := b.Ask(http.MethodGet, b.Base+path, "", nil)
	if status != http.StatusOK {
		b.t.Errorf("%s: %d %s", path, status, text)
	}
	return text
}

// Post sends a form, and returns the page that follows.
func (b *Browser) Post(path, form string) string {
	b.t.Helper()
	status, text := b.Ask(http.MethodPost, b.Base+path, "application/x-www-form-urlencoded", strings.NewReader(form))
	if status != http.StatusOK {
		b.t.Errorf("%s: %d %s", path, status, text)
	}
	return text
}

// Ask returns the status and the text of any response, with links as pages write them.
func (b *Browser) Ask(method, url, kind string, body io.Reader) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, body)
	testkit.Must(b.t, err)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	got, err := b.Do(r)
	testkit.Must(b.t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	testkit.Must(b.t, err)
	base, err := neturl.Parse(b.Base)
	testkit.Must(b.t, err)
	return got.StatusCode, strings.ReplaceAll(string(text), base.Path+"/", "/")
}

// Says checks that a page has these texts.
func Says(t testing.TB, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q:\n%s", text, page)
		}
	}
}
