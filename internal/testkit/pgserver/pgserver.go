// Package pgserver starts a PostgreSQL server of the installed package for tests.
//
//	server := pgserver.Start(t) // skips the test if PostgreSQL is not installed
//	server.Exec(t, "create table visits (age int)")
//	server.DSN // of a superuser, with its password
package pgserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Password is the superuser's. Tests check that no error contains it.
const Password = "open-sesame-7391"

// Server is a running server.
type Server struct {
	DSN  string // without TLS
	Port int
	CA   string // path of its certificate's authority; the certificate names only 127.0.0.1

	mu   sync.Mutex
	conn *pgconn.PgConn // of Exec and CopyCSV; to start a process for each takes longer than most statements
}

// Start starts a server in a folder of the test and stops it at the test's end. It listens only on the loopback, with
// TLS and without.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := binaries()
	if bin == "" {
		t.Skip("PostgreSQL is not installed (no /usr/lib/postgresql/*/bin/initdb, no initdb in PATH): install " +
			"Debian's package postgresql to run this test")
	}
	dir := filepath.Join(t.TempDir(), "data")
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		as.Credential = ordinary(t)
		// The folders of a test belong to its user.
		for _, folder := range []string{filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir)} {
			testkit.Must(t, os.Chmod(folder, 0o711))
		}
		testkit.Must(t, os.Mkdir(dir, 0o700))
		testkit.Must(t, os.Chown(dir, int(as.Credential.Uid), int(as.Credential.Gid)))
	}
	secret := filepath.Join(filepath.Dir(dir), "password")
	testkit.Must(t, os.WriteFile(secret, []byte(Password+"\n"), 0o644)) // of a server that lives only for a test
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", dir, "-U", "tester", "--auth=scram-sha-256",
		"--pwfile="+secret, "--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = as, "/"
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	_, free, err := net.SplitHostPort(testkit.FreeAddress(t, "127.0.0.1"))
	testkit.Must(t, err)
	port, err := strconv.Atoi(free)
	testkit.Must(t, err)
	s := &Server{Port: port, CA: filepath.Join(filepath.Dir(dir), "certs", "ca.crt")}
	issued := certificate(t, filepath.Dir(s.CA), dir, as.Credential)
	s.DSN = fmt.Sprintf("postgres://tester:%s@127.0.0.1:%d/postgres?sslmode=disable", Password, s.Port)
	var log bytes.Buffer
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", dir, "-p", strconv.Itoa(s.Port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c",
		"shared_buffers=16MB", "-c", "jit=off", // to compile a query takes longer than small tables do
		"-c", "ssl=on", "-c", "ssl_cert_file="+issued.Cert, "-c", "ssl_key_file="+issued.Key)
	server.SysProcAttr, server.Dir, server.Stdout, server.Stderr = as, "/", &log, &log
	testkit.Must(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt) // ends connections, then itself
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = server.Process.Kill()
			<-ended
		}
	})
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		conn, err := pgconn.Connect(testkit.Within(t), s.DSN)
		if err == nil {
			s.conn = conn
			t.Cleanup(func() { _ = s.conn.Close(context.Background()) }) // before the server ends
			return s
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the server ended: %v\n%s", err, log.String())
		default:
		}
		if time.Since(begun) > testkit.Patience {
			t.Fatalf("the server takes no connection: %v", err)
		}
	}
}

// certificate makes an authority and a certificate that the server can read in its folder.
func certificate(t testing.TB, issuer, dir string, of *syscall.Credential) certs.Files {
	t.Helper()
	testkit.Must(t, authority.Create(issuer))
	testkit.Must(t, authority.Issue(issuer, certs.RoleAggregator, "db", []string{"127.0.0.1"}, time.Hour))
	made := certs.IssuedFiles(issuer, certs.RoleAggregator, "db")
	files := certs.Files{Cert: filepath.Join(dir, "server.crt"), Key: filepath.Join(dir, "server.key")}
	for from, to := range map[string]string{made.Cert: files.Cert, made.Key: files.Key} {
		raw, err := os.ReadFile(from)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(to, raw, 0o600))
		if of != nil {
			testkit.Must(t, os.Chown(to, int(of.Uid), int(of.Gid)))
		}
	}
	return files
}

// Exec runs statements.
func (s *Server) Exec(t testing.TB, sql string) {
	t.Helper()
	s.with(t, func(conn *pgconn.PgConn) {
		if _, err := conn.Exec(context.Background(), sql).ReadAll(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	})
}

// CopyCSV adds the rows of a CSV file with a header to a table with the same column order.
func (s *Server) CopyCSV(t testing.TB, table string, csv io.Reader) {
	t.Helper()
	s.with(t, func(conn *pgconn.PgConn) {
		if _, err := conn.CopyFrom(context.Background(), csv,
			"copy "+table+" from stdin (format csv, header)"); err != nil {
			t.Fatal(err)
		}
	})
}

func (s *Server) with(t testing.TB, do func(*pgconn.PgConn)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.IsClosed() {
		conn, err := pgconn.Connect(context.Background(), s.DSN)
		testkit.Must(t, err)
		s.conn = conn
	}
	do(s.conn)
}

// binaries is the folder of the newest installed server, or empty.
func binaries() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if len(found) > 0 {
		return filepath.Dir(found[0])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// ordinary is a user other than root.
func ordinary(t testing.TB) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	t.Skip("PostgreSQL does not run as root, and there is no user postgres or nobody: run this test as another user")
	return nil
}
