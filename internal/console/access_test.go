package console

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Without the cookie everything is refused, and the token gives one cookie, once.
func TestTheTokenWorksOnce(t *testing.T) {
	s := serve(t)
	address := s.Address()
	for _, path := range []string{"/", "/static/console.css", "/events", "/none", "/do"} {
		if a := s.ask(t, http.MethodGet, path, ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a cookie: %s", path, a.Status)
		}
	}
	if a := s.ask(t, http.MethodPost, "/do", "x=1"); a.StatusCode != http.StatusUnauthorized || s.posted != 0 {
		t.Errorf("a form without a cookie: %s", a.Status)
	}
	for _, wrong := range []string{"/open", "/open?token=", "/open?token=" + strings.Repeat("A", 52)} {
		if a := s.ask(t, http.MethodGet, wrong, ""); a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) > 0 {
			t.Errorf("%s: %s", wrong, a.Status)
		}
	}
	if a := s.ask(t, http.MethodPost, address, "x=1"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token was taken from a form: %s", a.Status)
	}
	a := s.ask(t, http.MethodGet, address, "")
	if a.StatusCode != http.StatusOK || len(a.Cookies()) != 1 {
		t.Fatalf("the token: %s", a.Status)
	}
	if c := a.Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != s.access.path+"/" ||
		len(c.Value) < 26 {
		t.Errorf("the cookie is %v", c)
	}
	if a := s.ask(t, http.MethodGet, "/", ""); a.StatusCode != http.StatusOK || !strings.Contains(a.text,
		"&lt;b&gt;text") {
		t.Errorf("with the cookie: %s %s", a.Status, a.text)
	}
	if a := s.ask(t, http.MethodGet, address, ""); a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) > 0 {
		t.Errorf("the token works twice: %s", a.Status)
	}
}

// If many present the token at the same moment, one is admitted.
func TestOneOfManyIsLetIn(t *testing.T) {
	a := newAccess("127.0.0.1:1")
	token := a.token
	var in atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, ok := a.redeem(token); ok {
				in.Add(1)
			}
		})
	}
	all.Wait()
	testkit.Same(t, "let in", int32(1), in.Load())
}

func TestTokenAndSessionEnd(t *testing.T) {
	a := newAccess("127.0.0.1:1")
	token, began := a.token, a.since
	a.now = func() time.Time { return began.Add(tokenLife + time.Second) }
	if _, ok := a.redeem(token); ok {
		t.Error("a token that is too old works")
	}
	a.now = func() time.Time { return began.Add(tokenLife) }
	session, ok := a.redeem(token)
	if !ok {
		t.Fatal("a token that is good does not work")
	}
	r := &http.Request{Header: http.Header{"Cookie": {a.cookie + "=" + session}}}
	for after, want := range map[time.Duration]bool{time.Hour: true, sessionLife + time.Second: false} {
		a.now = func() time.Time { return began.Add(tokenLife + after) }
		if a.known(r) != want {
			t.Errorf("after %v the cookie is good: %v", after, !want)
		}
	}
}

// A request by another name for this machine is refused from any sender.
func TestRebindingIsRefused(t *testing.T) {
	s := serve(t)
	address := s.Address()
	port := s.base[strings.LastIndex(s.base, ":"):]
	for _, host := range []string{"evil.example" + port, "localhost" + port, "127.0.0.1", "127.0.0.1:1",
		"127.0.0.1.:" + port,
		"[::1]" + port} {
		as := func(r *http.Request) { r.Host = host }
		if a := s.ask(t, http.MethodGet, address, "", as); a.StatusCode != http.StatusMisdirectedRequest ||
			len(a.Cookies()) > 0 {
			t.Errorf("host %s: %s", host, a.Status)
		}
	}
	s.open(t)
	evil := func(r *http.Request) { r.Host = "evil.example" + port }
	if a := s.ask(t, http.MethodGet, "/", "", evil); a.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("with the cookie: %s", a.Status)
	}
}

// Only forms from this console's own pages are accepted, even with the cookie.
func TestForeignOriginsAreRefused(t *testing.T) {
	s := serve(t)
	s.open(t)
	for _, change := range []func(*http.Request){
		header("Origin", "http://evil.example"), header("Origin", "null"), header("Sec-Fetch-Site", "cross-site"),
		header("Sec-Fetch-Site", "same-site"), header("Origin", "http://127.0.0.1:1"),
	} {
		if a := s.ask(t, http.MethodPost, "/do", "x=1", change); a.StatusCode != http.StatusForbidden || s.posted != 0 {
			t.Errorf("%v: %s", a.Request.Header, a.Status)
		}
	}
	a := s.ask(t, http.MethodPost, "/do", "x=1", header("Origin", s.base), header("Sec-Fetch-Site", "same-origin"))
	if a.StatusCode != http.StatusOK || s.posted != 1 || !strings.Contains(a.text, "It is done.") {
		t.Errorf("the own form: %s %s", a.Status, a.text)
	}
}

func TestHeadersOfAllAnswers(t *testing.T) {
	s := serve(t)
	check := func(path string) {
		t.Helper()
		h := s.ask(t, http.MethodGet, path, "").Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'",
			"form-action 'self'",
			"frame-ancestors 'none'", "base-uri 'none'"} {
			if !slices.Contains(strings.Split(csp, "; "), want) {
				t.Errorf("%s: the policy has no %s: %s", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy is %s", path, csp)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin"} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
	}
	check("/") // refused
	check(s.Address())
	for _, path := range []string{"/", "/none", "/broken", "/nowhere", "/static/console.js", "/static/console.css"} {
		check(path)
	}
}

func TestMethodsAndStates(t *testing.T) {
	s := serve(t)
	s.open(t)
	for _, c := range []struct {
		method, path string
		want         int
		text         string
	}{
		{http.MethodPost, "/", http.StatusMethodNotAllowed, ""},
		{http.MethodDelete, "/do", http.StatusMethodNotAllowed, ""},
		{http.MethodGet, "/do", http.StatusMethodNotAllowed, ""},
		{http.MethodPut, "/static/console.js", http.StatusMethodNotAllowed, ""},
		{http.MethodGet, "/nowhere", http.StatusNotFound, ""},
		{http.MethodGet, "/static/../access.go", http.StatusUnauthorized, ""},
		{http.MethodGet, "/none", http.StatusNotFound, "There is no &#34;none&#34;."},
		{http.MethodGet, "/broken", http.StatusBadGateway, "It is away."},
	} {
		if a := s.ask(t, c.method, c.path, ""); a.StatusCode != c.want || !strings.Contains(a.text, c.text) {
			t.Errorf("%s %s: %s %s", c.method, c.path, a.Status, a.text)
		}
	}
	large := "x=" + strings.Repeat("y", maxBody+1)
	if a := s.ask(t, http.MethodPost, "/do", large); s.posted != 0 || a.StatusCode != http.StatusBadRequest {
		t.Errorf("a form of %d bytes: %s %s", len(large), a.Status, a.text)
	}
	if a := s.ask(t, http.MethodPost, "/do", "fail=it"); !strings.Contains(a.text,
		"<strong>Failed.</strong> It is wrong.") {
		t.Errorf("a form that fails: %s", a.text)
	}
	if a := s.ask(t, http.MethodGet, "/", ""); strings.Contains(a.text, "It is wrong") {
		t.Error("a notice is shown twice")
	}
}

// The console only listens on a loopback.
func TestOnlyALoopbackIsListenedOn(t *testing.T) {
	for _, listen := range []string{"", ":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "localhost:0", "example.org:80",
		"127.0.0.1",
		"[fe80::1%lo]:0"} {
		if c, err := New(listen, "x", nil, fstest.MapFS{}); err == nil {
			t.Errorf("%q is listened on", listen)
			testkit.Must(t, c.Close())
		} else if !strings.Contains(err.Error(), "is not a loopback address") {
			t.Errorf("%q: %v", listen, err)
		}
	}
	c, err := New("127.9.9.9:0", "x", nil, fstest.MapFS{"x.html": {}})
	testkit.Must(t, err)
	if !strings.HasPrefix(c.Address(), "http://127.9.9.9:") {
		t.Errorf("the address is %s", c.Address())
	}
	testkit.Must(t, c.Close())
}

// Browsers send cookies to all ports of a host. Another user's server on this machine gets none, because it does not
// know the path, and the cookie without the path opens nothing.
func TestOtherPortsGetNoCookie(t *testing.T) {
	s := serve(t)
	got := make(chan int, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- len(r.Cookies())
	}))
	defer thief.Close()
	cookie := s.ask(t, http.MethodGet, s.Address(), "").Cookies()[0]
	for _, path := range []string{"/", "/runs", "/static/console.js"} {
		a, err := s.browser.Get(thief.URL + path)
		testkit.Must(t, err)
		a.Body.Close()
		testkit.Same(t, "cookies that another port gets at "+path, 0, testkit.Receive(t, got))
	}
	for _, path := range []string{"/", "/static/console.css", "/events", s.access.path, "//" + s.access.path + "/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.access.host+path, nil)
		testkit.Must(t, err)
		r.AddCookie(cookie)
		a, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		a.Body.Close()
		testkit.Same(t, "status at "+path, http.StatusUnauthorized, a.StatusCode)
	}
}
