package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// machine runs the pods of a set as Kubernetes would: each in its own network with its own address, its containers
// confined by their security contexts, with the manifests' volumes and variables. It is one machine without a
// scheduler, and it enforces no NetworkPolicy.
type machine struct {
	t       *testing.T
	set     set
	images  map[string]string // app -> root of its image
	secrets map[string]string // name -> folder
	claims  string            // folder of volumes
	network string            // prefix of the names of namespaces
	hosts   string            // the hosts file of all
	running []*instance
}

// instance is a pod that runs.
type instance struct {
	m        *machine
	pod      pod
	name     string
	facts    map[string]string
	network  string
	mu       sync.Mutex
	process  *os.Process
	stopped  bool
	restarts int
	said     bytes.Buffer
	done     chan struct{}
	code     int // exit code of the last end
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, said)
	}
}

// newMachine makes the network: a switch in its own namespace, so that this machine's network is not touched.
func newMachine(t *testing.T, s set) *machine {
	t.Helper()
	m := &machine{t: t, set: s, images: map[string]string{}, secrets: map[string]string{}, claims: t.TempDir(),
		network: fmt.Sprintf("conclave-%d-", os.Getpid())}
	sw := m.network + "switch"
	if said, err := exec.Command("ip", "netns", "add", sw).CombinedOutput(); err != nil {
		t.Skipf("no network namespace can be made here: %v, %s", err, said)
	}
	t.Cleanup(func() { ip(t, "netns", "del", sw) })
	ip(t, "-n", sw, "link", "add", "pods", "type", "bridge")
	ip(t, "-n", sw, "addr", "add", "10.213.0.1/24", "dev", "pods")
	ip(t, "-n", sw, "link", "set", "pods", "up")
	return m
}

// prepare names the pods and assigns addresses; start then starts them all.
func (m *machine) prepare() {
	m.t.Helper()
	hosts := "127.0.0.1 localhost\n"
	for _, p := range m.set.pods() {
		for i := range m.replicas(p) {
			x := &instance{m: m, pod: p, name: fmt.Sprintf("%s-%d", p.name, i), done: make(chan struct{})}
			if p.kind == "Deployment" {
				x.name = fmt.Sprintf("%s-5d78c9869d-%c2x4z", p.name, 'a'+i)
			}
			address := fmt.Sprintf("10.213.0.%d", 10+len(m.running))
			x.facts = map[string]string{factName: x.name, factIP: address, factIndex: fmt.Sprint(i)}
			x.network = fmt.Sprintf("%s%d", m.network, len(m.running))
			ip(m.t, "netns", "add", x.network)
			m.t.Cleanup(func() { ip(m.t, "netns", "del", x.network) })
			port := fmt.Sprintf("port%d", len(m.running))
			ip(m.t, "-n", m.network+"switch", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
				x.network)
			ip(m.t, "-n", m.network+"switch", "link", "set", port, "master", "pods", "up")
			ip(m.t, "-n", x.network, "addr", "add", address+"/24", "dev", "eth0")
			ip(m.t, "-n", x.network, "link", "set", "eth0", "up")
			ip(m.t, "-n", x.network, "link", "set", "lo", "up")
			// A headless service has a name for each pod of a StatefulSet, and one for all.
			hosts += fmt.Sprintf("%s %s.%s %s\n", address, x.name, p.name, p.name)
			m.running = append(m.running, x)
		}
	}
	m.hosts = filepath.Join(m.t.TempDir(), "hosts")
	testkit.Must(m.t, os.WriteFile(m.hosts, []byte(hosts), 0o644))
}

func (m *machine) replicas(p pod) int {
	for _, object := range m.set.objects {
		if n := replicasOf(object); n > 0 && title(object) == p.kind+"/"+p.name {
			return n
		}
	}
	return 1
}

// source is the folder behind a volume, made as a kubelet makes it.
func (x *instance) source(name string) string {
	t := x.m.t
	t.Helper()
	group := int(*x.pod.spec.SecurityContext.FSGroup)
	claim := func(name string) string {
		dir := filepath.Join(x.m.claims, name)
		testkit.Must(t, os.MkdirAll(dir, 0o755))
		testkit.Must(t, os.Chown(dir, 0, group))
		testkit.Must(t, os.Chmod(dir, 0o775|os.ModeSetgid))
		return dir
	}
	for _, c := range x.pod.claims {
		if c.Name == name {
			return claim(name + "-" + x.name)
		}
	}
	files := func(mode os.FileMode, contents map[string][]byte) string {
		dir := t.TempDir()
		testkit.Must(t, os.Chmod(dir, 0o755))
		for file, raw := range contents {
			at := filepath.Join(dir, file)
			testkit.Must(t, os.WriteFile(at, raw, 0o600))
			testkit.Must(t, os.Chown(at, 0, group))
			testkit.Must(t, os.Chmod(at, mode))
		}
		return dir
	}
	contents := map[string][]byte{}
	for _, v := range x.pod.spec.Volumes {
		switch {
		case v.Name != name:
		case v.PersistentVolumeClaim != nil:
			return claim(v.PersistentVolumeClaim.ClaimName)
		case v.ConfigMap != nil:
			for file, text := range find[*corev1.ConfigMap](x.m.set)[v.ConfigMap.Name].Data {
				contents[file] = []byte(text)
			}
			return files(0o644, contents)
		case v.Secret != nil:
			dir, ok := x.m.secrets[v.Secret.SecretName]
			if !ok {
				t.Fatalf("the Secret %s was not made", v.Secret.SecretName)
			}
			entries, err := os.ReadDir(dir)
			testkit.Must(t, err)
			for _, entry := range entries {
				raw, err := os.ReadFile(filepath.Join(dir, entry.Name()))
				testkit.Must(t, err)
				contents[entry.Name()] = raw
			}
			return files(os.FileMode(*v.Secret.DefaultMode), contents)
		}
	}
	t.Fatalf("%s has no volume %s", x.name, name)
	return ""
}

// container is the pod's container on this machine.
func (x *instance) container() container {
	t := x.m.t
	t.Helper()
	spec, security := x.pod.spec.Containers[0], x.pod.spec.SecurityContext
	root := t.TempDir()
	testkit.Must(t, os.CopyFS(root, os.DirFS(x.m.images[x.pod.app()])))
	testkit.Must(t, os.Chmod(root, 0o755))
	c := container{
		Root: root, Network: x.network,
		User: int(*security.RunAsUser), Group: int(*security.RunAsGroup), FSGroup: int(*security.FSGroup),
		Binds: []bind{{x.m.hosts, "/etc/hosts", true}},
	}
	for _, v := range spec.VolumeMounts {
		c.Binds = append(c.Binds, bind{x.source(v.Name), v.MountPath, v.ReadOnly})
	}
	values := expand(t, spec, x.facts)
	for name, value := range values {
		c.Env = append(c.Env, name+"="+value)
	}
	for _, a := range append(append([]string{}, spec.Command...), spec.Args...) {
		c.Args = append(c.Args, replace(a, values))
	}
	return c
}

// start runs all pods at once; a server is restarted when it ends.
func (m *machine) start() {
	m.t.Helper()
	for _, x := range m.running {
		c := x.container()
		m.t.Cleanup(x.stopNow)
		commands := make(chan *exec.Cmd, 1)
		commands <- c.command(m.t)
		go x.live(commands, c)
	}
}

// live starts the container and restarts it.
func (x *instance) live(first <-chan *exec.Cmd, c container) {
	defer close(x.done)
	for command := <-first; ; command = c.command(x.m.t) {
		command.Stdout, command.Stderr = &locked{x, &x.said}, &locked{x, &x.said}
		x.mu.Lock()
		if x.stopped {
			x.mu.Unlock()
			return
		}
		err := command.Start()
		x.process = command.Process
		x.mu.Unlock()
		if err != nil {
			x.code = -1
			return
		}
		_ = command.Wait() // ProcessState has the outcome
		x.mu.Lock()
		x.code = command.ProcessState.ExitCode()
		again := !x.stopped && (x.pod.serves() || x.code != 0 && x.restarts < 6)
		x.mu.Unlock()
		if !again {
			return
		}
		x.restarts++
		time.Sleep(time.Second)
	}
}

// locked is a buffer that can be read while it is written.
type locked struct {
	x *instance
	b *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	return l.b.Write(p)
}

func (x *instance) log() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.String()
}

// signal sends a signal; with last, the container is not restarted.
func (x *instance) signal(s syscall.Signal, last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = x.stopped || last
	if x.process != nil {
		_ = x.process.Signal(s)
	}
}

func (x *instance) stopNow() {
	x.signal(syscall.SIGKILL, true)
	testkit.Receive(x.m.t, x.done)
	if x.m.t.Failed() {
		said := x.log()
		x.m.t.Logf("%s (%d restarts, exit code %d) said at last:\n%s", x.name, x.restarts, x.code,
			said[max(0, len(said)-1500):])
	}
}

// get requests a path of the pod from another pod's network, as a kubelet does.
func (x *instance) get(port intstr.IntOrString, path string) (code int, body string) {
	address := net.JoinHostPort(x.facts[factIP], fmt.Sprint(portOf(x.pod.spec.Containers[0], port)))
	client := http.Client{Timeout: 6 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return dialIn(x.m.network+"switch", address)
		},
	}}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(raw))
}

// ready asks the pod's readiness probe.
func (x *instance) ready() (bool, string) {
	probe := x.pod.spec.Containers[0].ReadinessProbe.HTTPGet
	code, body := x.get(probe.Port, probe.Path)
	return code == http.StatusOK, body
}

// dialIn connects from a network namespace.
func dialIn(network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialled := make(chan result)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and its network with it.
		runtime.LockOSThread()
		f, err := os.Open("/var/run/netns/" + network)
		if err == nil {
			err = errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
		}
		var conn net.Conn
		if err == nil {
			conn, err = net.DialTimeout("tcp", address, 3*time.Second)
		}
		dialled <- result{conn, err}
	}()
	r := <-dialled
	return r.conn, r.err
}
