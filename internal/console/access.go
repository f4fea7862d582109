package console

import (
	"crypto/rand"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// tokenLife is how long the address may wait for its one use, sessionLife how long the cookie is good.
	tokenLife   = 5 * time.Minute
	sessionLife = 12 * time.Hour
	openPath    = "/open"
)

// policy lets a page load what this console serves, and nothing else; it has no script or style of its own.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"

// access lets one browser in: who has the token makes it a cookie, once.
type access struct {
	host   string // what the browser must have asked for, host:port
	cookie string // its name; cookies do not know ports
	now    func() time.Time

	mu      sync.Mutex
	token   string // empty once it was used
	session string // empty before that
	since   time.Time
}

func newAccess(host string) *access {
	_, port, _ := net.SplitHostPort(host) // of a listener
	a := &access{host: host, cookie: "conclave-console-" + port, now: time.Now, token: rand.Text() + rand.Text()}
	a.since = a.now()
	return a
}

func (a *access) address() string { return "http://" + a.host + openPath + "?token=" + a.token }

// redeem makes the token a session, the first time that it comes.
func (a *access) redeem(token string) (session string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == "" || a.now().Sub(a.since) > tokenLife || !same(token, a.token) {
		return "", false
	}
	a.token, a.session, a.since = "", rand.Text()+rand.Text(), a.now()
	return a.session, true
}

// known says whether a request has the session's cookie.
func (a *access) known(r *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, err := r.Cookie(a.cookie)
	return err == nil && a.session != "" && a.now().Sub(a.since) <= sessionLife && same(c.Value, a.session)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// guard sets the headers of all answers, and lets through what comes from the person's browser.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		switch {
		case r.Host != a.host: // a name of somebody else that leads to this machine
			http.Error(w, "This console answers at http://"+a.host+" alone.", http.StatusMisdirectedRequest)
		case r.URL.Path == openPath:
			a.open(w, r)
		case !a.known(r):
			http.Error(w, "The console opens by the address that it printed, once. Start it again for a new one.",
				http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// open sets the cookie. The page that follows is asked for by this one: after a redirect from another site's link
// the browser would keep the cookie back.
func (a *access) open(w http.ResponseWriter, r *http.Request) {
	session, ok := "", false
	if r.Method == http.MethodGet {
		session, ok = a.redeem(r.URL.Query().Get("token"))
	}
	if !ok {
		http.Error(w, "This address was used before, or is too old. Start the console again for a new one.",
			http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie, Value: session, Path: "/", MaxAge: int(sessionLife.Seconds()), HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>Conclave console</title>`+
		`<link rel="icon" href="/static/icon.svg">`+
		`<meta http-equiv="refresh" content="0;url=/"><p><a href="/">Open the console</a></p></html>`)
}
