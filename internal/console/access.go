package console

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// tokenLife is how long the address may wait for its one use, sessionLife how long the cookie is valid.
	tokenLife   = 5 * time.Minute
	sessionLife = 12 * time.Hour
	openPath    = "/open"
)

// policy lets a page load only what this console serves, without inline scripts or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"

// access admits one browser: the token is exchanged for a cookie once.
type access struct {
	host string // the Host that the browser must send, host:port
	// path is the secret prefix of all paths. Browsers send a host's cookies to all of its ports, including other
	// users' servers, but only to the cookie's path.
	path   string
	cookie string // its name; a browser may have several consoles
	now    func() time.Time

	mu      sync.Mutex
	token   string // empty after its use
	session string // empty before that
	since   time.Time
}

func newAccess(host string) *access {
	_, port, _ := net.SplitHostPort(host) // of a listener
	a := &access{host: host, path: "/" + rand.Text(), cookie: "conclave-console-" + port, now: time.Now,
		token: rand.Text() + rand.Text()}
	a.since = a.now()
	return a
}

func (a *access) address() string {
	return "http://" + a.host + a.path + openPath + "?token=" + a.token
}

// links matches the attributes of pages that link to other pages of the console. Templates escape quotes in texts and
// values.
var links = regexp.MustCompile(` (href|src|action|data-events)="/`)

// placed prefixes a page's links with the console's path.
func (a *access) placed(page []byte) []byte {
	return links.ReplaceAll(page, []byte(` ${1}="`+a.path+"/"))
}

// redeem exchanges the token for a session, the first time that it comes.
func (a *access) redeem(token string) (session string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == "" || a.now().Sub(a.since) > tokenLife || !same(token, a.token) {
		return "", false
	}
	a.token, a.session, a.since = "", rand.Text()+rand.Text(), a.now()
	return a.session, true
}

// known reports whether a request has the session's cookie.
func (a *access) known(r *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := r.Cookie(a.cookie)
	return err == nil && a.session != "" && a.now().Sub(a.since) <= sessionLife && same(c.Value, a.session)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// guard sets the headers of all answers, and passes only requests from the person's browser.
func (a *access) guard(next http.Handler) http.Handler {
	next = http.StripPrefix(a.path, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		switch {
		case r.Host != a.host: // a foreign name that resolves to this machine
			http.Error(w, "This console answers at http://"+a.host+" alone.", http.StatusMisdirectedRequest)
		case same(r.URL.Path, a.path+openPath):
			a.open(w, r)
		case !strings.HasPrefix(r.URL.Path, a.path+"/") || !a.known(r):
			http.Error(w, "Open the console with the address that it printed, which works once. Start the console "+
				"again for a new one.",
				http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// open sets the cookie. This page then requests the next one: after a redirect from another site's link the browser
// would withhold the cookie.
func (a *access) open(w http.ResponseWriter, r *http.Request) {
	session, ok := "", false
	if r.Method == http.MethodGet {
		session, ok = a.redeem(r.URL.Query().Get("token"))
	}
	if !ok {
		http.Error(w, "This address was already used, or has expired. Start the console again for a new one.",
			http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie, Value: session, Path: a.path + "/", MaxAge: int(sessionLife.Seconds()), HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(a.placed([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Conclave console` +
		`</title><link rel="icon" href="/static/icon.svg"><meta http-equiv="refresh" content="0;url=` + a.path +
		`/"><p><a href="/">Open the console</a></p></html>`)))
}
