package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// served is a console with a page, a form and a stream, and a browser that has not opened it.
type served struct {
	*Console
	base    string
	browser *http.Client
	posted  int
	changes chan struct{}
}

func serve(t *testing.T) *served {
	t.Helper()
	c, err := New("127.0.0.1:0", "tester", []Link{{"/", "Home"}, {"/deep", "Deep"}}, fstest.MapFS{
		"home.html": {Data: []byte(`{{define "main"}}<p>{{.}}</p>{{end}}`)},
	})
	testkit.Must(t, err)
	s := &served{Console: c, base: "http://" + c.access.host + c.access.path, changes: make(chan struct{})}
	c.Get("/{$}", func(*http.Request) (View, error) {
		return View{Page: "home", Title: "Home", Data: "<b>text</b>"}, nil
	})
	c.Get("/broken", func(*http.Request) (View, error) { return View{}, errors.New("it is away") })
	c.Get("/none", func(*http.Request) (View, error) { return View{}, NotFound("there is no %q", "none") })
	c.Post("/do", func(r *http.Request) (string, string, error) {
		if r.PostFormValue("fail") != "" {
			return "/", "", fmt.Errorf("%s is wrong", r.PostFormValue("fail"))
		}
		s.posted++
		return "/", "It is done.", nil
	})
	c.Events("/events", func(ctx context.Context, _ *http.Request, changed func()) error {
		for {
			select {
			case _, more := <-s.changes:
				if !more {
					return nil
				}
				changed()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	testkit.Must(t, err)
	s.browser = &http.Client{Jar: jar}
	return s
}

// answer is the response to a request.
type answer struct {
	*http.Response
	text string
}

func (s *served) ask(t *testing.T, method, path, body string, change ...func(*http.Request)) answer {
	t.Helper()
	url := path
	if !strings.HasPrefix(path, "http") {
		url = s.base + path
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testkit.Must(t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	got, err := s.browser.Do(r)
	testkit.Must(t, err)
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	testkit.Must(t, err)
	return answer{got, string(raw)}
}

// open admits the browser.
func (s *served) open(t *testing.T) {
	t.Helper()
	if a := s.ask(t, http.MethodGet, s.Address(), ""); a.StatusCode != http.StatusOK {
		t.Fatalf("the address opens nothing: %s", a.Status)
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}
