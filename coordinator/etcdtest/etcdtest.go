// Package etcdtest runs an etcd as an operator would: on a port, with certificates on both sides, and with users
// named like their certificates.
package etcdtest

import (
	"context"
	"crypto/tls"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Run runs an etcd with one member until the test ends, and returns its URL. It requires certificates of the
// authority in files.
func Run(t testing.TB, files certs.Files) (endpoint string) {
	t.Helper()
	e := Start(t, t.TempDir(), url.URL{Scheme: "https", Host: "127.0.0.1:0"}, files)
	t.Cleanup(e.Close)
	return "https://" + e.Clients[0].Addr().String()
}

// Start is Run with the caller's folder and address. The caller closes it.
func Start(t testing.TB, dir string, address url.URL, files certs.Files) *embed.Etcd {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = dir
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{address}, []url.URL{address}
	c.ListenPeerUrls = nil
	c.EnableGRPCGateway = false
	c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = files.Cert, files.Key
	c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = files.CA, true
	c.TickMs, c.ElectionMs = 10, 100
	e, err := embed.StartEtcd(c)
	testkit.Must(t, err)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(testkit.Patience):
		t.Fatal("the external etcd is not ready")
	}
	return e
}

// Users are an etcd's users, named after the common names of their certificates, as in docs/kubernetes-install.md.
type Users struct {
	Endpoint string
	dir      string
}

// The names of the certificates.
const (
	Ledger   = "ledger"   // reads and writes the prefix
	Backup   = "backup"   // reads it
	Stranger = "stranger" // a certificate of the authority without a user
	admin    = "root"
)

// WithUsers runs an etcd with users that have permissions on a prefix.
func WithUsers(t testing.TB, prefix string) Users {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "etcd", []string{"127.0.0.1"}, time.Hour))
	for _, name := range []string{Ledger, Backup, Stranger, admin} {
		testkit.Must(t, authority.Issue(dir, certs.RoleStudent, name, nil, time.Hour))
	}
	u := Users{Run(t, certs.IssuedFiles(dir, certs.RoleAggregator, "etcd")), dir}
	u.enable(t, prefix)
	return u
}

// Files are a user's certificate, its key and the authority.
func (u Users) Files(name string) certs.Files {
	return certs.IssuedFiles(u.dir, certs.RoleStudent, name)
}

// TLS is the client configuration with a user's certificate.
func (u Users) TLS(t testing.TB, name string) *tls.Config {
	t.Helper()
	config, err := tlsconfig.Client(u.Files(name), "127.0.0.1")
	testkit.Must(t, err)
	return config
}

// Client is a client with a user's certificate; it closes when the test ends.
func (u Users) Client(t testing.TB, name string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{u.Endpoint}, TLS: u.TLS(t, name), Logger: zap.NewNop(),
	})
	testkit.Must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func (u Users) enable(t testing.TB, prefix string) {
	t.Helper()
	ctx := context.Background()
	client := u.Client(t, admin)
	must := func(_ any, err error) {
		t.Helper()
		testkit.Must(t, err)
	}
	end := clientv3.GetPrefixRangeEnd(prefix)
	add := func(name string) {
		must(client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true}))
	}
	for name, permission := range map[string]clientv3.PermissionType{
		Ledger: clientv3.PermissionType(clientv3.PermReadWrite), Backup: clientv3.PermissionType(clientv3.PermRead),
	} {
		must(client.RoleAdd(ctx, name))
		must(client.RoleGrantPermission(ctx, name, prefix, end, permission))
		add("student-" + name)
		must(client.UserGrantRole(ctx, "student-"+name, name))
	}
	add("root")
	must(client.UserGrantRole(ctx, "root", "root"))
	add("student-" + admin)
	must(client.UserGrantRole(ctx, "student-"+admin, "root"))
	must(client.AuthEnable(ctx))
}
