package etcdserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// answers fails unless the server answers a client.
func answers(t *testing.T, e *Server) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Logger: zap.NewNop()})
	testkit.Must(t, err)
	_, err = client.Get(testkit.Within(t), "key")
	testkit.Must(t, errors.Join(err, client.Close()))
}

const damagedEnv = "CONCLAVE_TEST_ETCDSERVER_DIR"

func TestEmbeddedStartsPrivately(t *testing.T) {
	dir := t.TempDir() // open to other users
	testkit.Must(t, os.Chmod(dir, 0o755))
	e := runEtcd(t, dir)
	socket, ok := strings.CutPrefix(e.Endpoints()[0], "unix://")
	if !ok || !filepath.IsAbs(socket) {
		t.Fatalf("endpoint %s", e.Endpoints()[0])
	}
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket's folder: %v, %v", info.Mode(), err)
	}
	if ports := listeningPorts(t); len(ports) > 0 {
		t.Errorf("it listens on TCP: %v", ports)
	}
	config := e.server.Config()
	if config.UnsafeNoFsync {
		t.Error("commits are not synced")
	}
	answers(t, e)
}

// listeningPorts are this process's listening TCP sockets.
func listeningPorts(t *testing.T) (ports []string) {
	if runtime.GOOS != "linux" {
		t.Log("TCP sockets are looked for on Linux only")
		return nil
	}
	mine := make(map[string]bool)
	fds, err := filepath.Glob("/proc/self/fd/*")
	testkit.Must(t, err)
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil {
			if inode, ok := strings.CutPrefix(link, "socket:["); ok {
				mine[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		raw, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(raw), "\n")[1:] {
			const listen = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listen && mine[f[9]] {
				ports = append(ports, f[1])
			}
		}
	}
	return ports
}

func TestListeningPortsSeesTCP(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer l.Close()
	if len(listeningPorts(t)) != 1 {
		t.Error("a listening socket was not found")
	}
}

func TestEmbeddedLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	e := runEtcd(t, dir)
	socket := strings.TrimPrefix(e.Endpoints()[0], "unix://")
	if len(socket) > maxSocketPath {
		t.Errorf("socket %s", socket)
	}
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket's folder: %v, %v", info, err)
	}
	answers(t, e)
	testkit.Must(t, e.Close())
	if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's folder was left: %v", err)
	}
}

func TestEmbeddedRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	for name, dir := range map[string]string{"no folder": "", "a file": file} {
		e, err := Start(testkit.Within(t), Config{Dir: dir})
		if err == nil {
			e.Close()
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %q does not name it", name, err)
		}
	}
}

// etcd's fatal errors must reach the caller and not end the process.
func TestEmbeddedDamagedFolder(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"write-ahead log": func(dir string) error {
			logs, err := filepath.Glob(filepath.Join(dir, "etcd", "data", "member", "wal", "0*.wal"))
			if err != nil || len(logs) == 0 {
				return fmt.Errorf("no log: %w", err)
			}
			return os.WriteFile(logs[0], []byte(strings.Repeat("damage", 1000)), 0o600)
		},
		"database": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "etcd", "data", "member", "snap", "db"),
				[]byte(strings.Repeat("damage", 10000)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			testkit.Must(t, runEtcd(t, dir).Close())
			testkit.Must(t, damage(dir))
			// In another process, because a failed start leaves goroutines of
			// etcd behind that nothing can end.
			cmd := exec.CommandContext(testkit.Within(t), os.Args[0])
			cmd.Env = append(os.Environ(), damagedEnv+"="+dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.HasPrefix(string(out), "error: start etcd in "+dir) ||
				!strings.Contains(string(out), "backup") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// Without a temporary folder, as in a root that is read-only, a long path is an error that
// says what to do.
func TestALongPathWithoutATemporaryFolder(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	_, err := Start(testkit.Within(t), Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "too long for a socket") ||
		!strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("error %v", err)
	}
}
