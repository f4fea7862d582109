package faults

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// A proxy injects its faults and loses nothing of what it forwards.
func TestProxy(t *testing.T) {
	t.Parallel()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	p := clustertest.NewProxy(t, "echo", "127.0.0.1:0", echo.Addr().String())
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		testkit.Must(t, err)
		return c
	}
	// said sends a text and returns the reply within a time.
	said := func(c net.Conn, text string, within time.Duration) string {
		if _, err := c.Write([]byte(text)); err != nil {
			return "error"
		}
		_ = c.SetReadDeadline(time.Now().Add(within))
		got := make([]byte, len(text))
		n, _ := io.ReadFull(c, got)
		return string(got[:n])
	}
	c := dial()
	if got := said(c, "hello", testkit.Patience); got != "hello" {
		t.Errorf("an echo of hello is %q", got)
	}
	p.Set(func(p *clustertest.Proxy) { p.Stalled[1] = true })
	if got := said(c, "held", 200*time.Millisecond); got != "" {
		t.Errorf("a stalled connection says %q", got)
	}
	p.Heal()
	if got := said(c, "", 0) + said(c, "back", testkit.Patience); got != "held" {
		t.Errorf("after a stall comes %q, want what was held back", got)
	}
	p.Set(func(p *clustertest.Proxy) { p.Tear = true })
	// Four bytes are left over from before, so half of these are not enough.
	if got := said(c, "torn-torn", testkit.Patience); len(got) == len("torn-torn") {
		t.Errorf("a torn connection says %q", got)
	}
	if got := said(c, "x", time.Second); got != "" && got != "error" {
		t.Errorf("a torn connection lives: %q", got)
	}
	c.Close()
	p.Set(func(p *clustertest.Proxy) { p.Refuse = true })
	if c = dial(); said(c, "x", testkit.Patience) == "x" {
		t.Error("a refused connection answers")
	}
	c.Close()
	p.Heal()
	c = dial()
	defer c.Close()
	p.Set(func(p *clustertest.Proxy) { p.Delay = 100 * time.Millisecond })
	began := time.Now()
	if got := said(c, "late", testkit.Patience); got != "late" || time.Since(began) < 200*time.Millisecond {
		t.Errorf("a delayed echo is %q after %v", got, time.Since(began))
	}
	p.Cut()
	if got := said(c, "x", testkit.Patience); got == "x" {
		t.Error("a connection that was cut answers")
	}
}
