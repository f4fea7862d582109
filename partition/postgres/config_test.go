package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestValidateNamesTheFieldAndTheFix(t *testing.T) {
	good := Config{DSNFile: "dsn", Query: "table visits", Timeout: time.Minute}
	testkit.Must(t, good.Validate())
	for want, spoil := range map[string]func(*Config){
		"sql.dsn_file: missing":            func(c *Config) { c.DSNFile = "" },
		"sql.dsn_file: sql.dsn_env is set": func(c *Config) { c.DSNEnv = "DSN" },
		"sql.dsn_env: not the name":        func(c *Config) { c.DSNFile, c.DSNEnv = "", "host=db password=hush" },
		"sql.query: missing":               func(c *Config) { c.Query = " \n" },
		"sql.timeout: 0s":                  func(c *Config) { c.Timeout = 0 },
		"sql.timeout: 1000h0m0s":           func(c *Config) { c.Timeout = 1000 * time.Hour },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

func TestDSN(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) Config {
		path := filepath.Join(dir, "dsn")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return Config{DSNFile: path}
	}
	for _, text := range []string{"host=db user=u", "host=db user=u\n", "\ufeff host=db user=u \r\n"} {
		if got, err := write(text).dsn(); err != nil || got != "host=db user=u" {
			t.Errorf("%q: %q (%v)", text, got, err)
		}
	}
	t.Setenv("A_DSN", " host=db\n")
	if got, err := (Config{DSNEnv: "A_DSN"}).dsn(); err != nil || got != "host=db" {
		t.Errorf("from the environment: %q (%v)", got, err)
	}
	t.Setenv("EMPTY_DSN", " ")
	for want, c := range map[string]Config{
		"NO_SUCH_DSN of sql.dsn_env is not set":   {DSNEnv: "NO_SUCH_DSN"},
		"EMPTY_DSN of sql.dsn_env is not set":     {DSNEnv: "EMPTY_DSN"},
		"nowhere: no such file":                   {DSNFile: filepath.Join(dir, "nowhere")},
		"dsn: not a connection string; write one": write("host=db\npassword=hush\n" + strings.Repeat("x", maxDSN)),
	} {
		if _, err := c.dsn(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}
