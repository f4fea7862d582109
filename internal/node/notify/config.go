package notify

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// Config says where people are told that a run waits for them. The names in a message leave the site if the address
// is elsewhere; see docs/approvals.md#telling-people.
type Config struct {
	// URL is the address that gets one POST of JSON for each run that waits: https, or http on a loopback. Default:
	// none.
	URL string `yaml:"url"`
	// TokenFile is the path of a file with the token that is sent as `Authorization: Bearer TOKEN`. It is read for
	// every POST. Default: none.
	TokenFile string `yaml:"token_file"`
}

// Validate reports a URL that would send names unencrypted, or a token without a URL.
func (c Config) Validate() error {
	if c.URL == "" {
		if c.TokenFile != "" {
			return errors.New("notify: token_file needs url; set both, or neither")
		}
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && onLoopback(u.Hostname())) {
		return errors.New("notify: url is neither https nor http on a loopback address; write " +
			"https://alerts.example.org/conclave, or leave notify out")
	}
	return nil
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// token reads the token; empty without a file.
func (c Config) token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	raw, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("notify: token_file: %w; make it readable", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("notify: token_file: %s is empty; write the token there, on one line", c.TokenFile)
	}
	return token, nil
}
