package peer

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// BenchmarkCheck measures the cost of checking the certificate for each message.
func BenchmarkCheck(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "certs")
	testkit.Must(b, authority.Create(dir))
	testkit.Must(b, authority.Issue(dir, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(b, authority.Issue(dir, certs.RoleNode, "north", nil, time.Hour))
	files := certs.IssuedFiles(dir, certs.RoleAggregator, "agg")
	for name, list := range map[string]string{"no list": "", "a list": certs.RevokedFile(dir)} {
		b.Run(name, func(b *testing.B) {
			files.Revoked = list
			guard, err := tlsconfig.NewServerCredentials(files)
			testkit.Must(b, err)
			north := leafOf(b, certs.IssuedFiles(dir, certs.RoleNode, "north"))
			_, session := NewSessions(guard).Begin(b.Context(), "", north, certs.Identity{}, Caller{})
			defer session.Leave()
			b.ReportAllocs()
			for b.Loop() {
				if err := session.Check(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func leafOf(t testing.TB, f certs.Files) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	testkit.Must(t, err)
	return pair.Leaf
}
