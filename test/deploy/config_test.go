package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// mountOf is the mount that contains a path of a container.
func mountOf(c corev1.Container, path string) *corev1.VolumeMount {
	for i, m := range c.VolumeMounts {
		if strings.HasPrefix(path, m.MountPath+"/") {
			return &c.VolumeMounts[i]
		}
	}
	return nil
}

// configFile writes the ConfigMap that contains a path of a container, and returns the file's path.
func (s set) configFile(t *testing.T, p pod, path string) string {
	t.Helper()
	mount := mountOf(p.spec.Containers[0], path)
	if mount == nil {
		t.Fatalf("%s has no mount", path)
	}
	for _, v := range p.spec.Volumes {
		if v.Name != mount.Name || v.ConfigMap == nil {
			continue
		}
		dir := t.TempDir()
		for name, text := range find[*corev1.ConfigMap](s)[v.ConfigMap.Name].Data {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		return filepath.Join(dir, strings.TrimPrefix(path, mount.MountPath))
	}
	t.Fatalf("%s is in no ConfigMap", path)
	return ""
}

// environment sets a pod's CONCLAVE_... variables, for one ordinal, in the test's environment.
func environment(t *testing.T, c corev1.Container, facts map[string]string) {
	t.Helper()
	for name, value := range expand(t, c, facts) {
		if strings.HasPrefix(name, "CONCLAVE_") {
			t.Setenv(name, value)
		}
	}
}

// expand expands the variables of a container as Kubernetes would, with facts for the pod's fields.
func expand(t *testing.T, c corev1.Container, facts map[string]string) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, e := range c.Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil:
			var ok bool
			if value, ok = facts[from.FieldRef.FieldPath]; !ok {
				t.Fatalf("%s: what is %s?", e.Name, from.FieldRef.FieldPath)
			}
		case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory":
			divisor := from.ResourceFieldRef.Divisor.Value()
			value = fmt.Sprint((c.Resources.Limits.Memory().Value() + divisor - 1) / divisor)
		default:
			t.Fatalf("%s is not from the pod", e.Name)
		}
		values[e.Name] = replace(value, values)
	}
	return values
}

func replace(text string, values map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		if value, ok := values[v[2:len(v)-1]]; ok {
			return value
		}
		return v
	})
}

const (
	factName  = "metadata.name"
	factIP    = "status.podIP"
	factIndex = "metadata.labels['apps.kubernetes.io/pod-index']"
)

// listens requires a container port for an address that a program opens.
func listens(t *testing.T, c corev1.Container, what, address, name string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" {
		t.Errorf("%s: %q is not every address of the pod", what, address)
	}
	for _, p := range c.Ports {
		if p.Name == name && fmt.Sprint(p.ContainerPort) == port {
			return
		}
	}
	t.Errorf("%s: the container's port %s is not %s", what, name, port)
}

// writable requires a path in a writable volume, below its root.
func writable(t *testing.T, c corev1.Container, path string) {
	t.Helper()
	if m := mountOf(c, path); m == nil || m.ReadOnly {
		t.Errorf("%s cannot be written", path)
	}
}

// readable requires paths in read-only mounts.
func readable(t *testing.T, c corev1.Container, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if m := mountOf(c, path); m == nil || !m.ReadOnly {
			t.Errorf("%s is in no mount, or in one that can be written", path)
		}
	}
}

// grace requires what docs/upgrade.md says: drain plus 40 seconds.
func grace(t *testing.T, p pod, drain time.Duration) {
	t.Helper()
	given := time.Duration(0)
	if s := p.spec.TerminationGracePeriodSeconds; s != nil {
		given = time.Duration(*s) * time.Second
	}
	if given < drain+40*time.Second {
		t.Errorf("a pod has %v to stop, with a drain of %v", given, drain)
	}
}

// dials requires a server name from the documented certificate, and an address that is a service of the set, or an
// external one that a policy allows.
func (s set) dials(t *testing.T, p pod, address, serverName string) {
	t.Helper()
	if serverName != "aggregator" {
		t.Errorf("the server name is %q", serverName)
	}
	host, port, err := net.SplitHostPort(address)
	testkit.Must(t, err)
	if service := find[*corev1.Service](s)[host]; service != nil {
		if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
			return fmt.Sprint(p.Port) == port
		}) {
			t.Errorf("the service %s has no port %s", host, port)
		}
		if service.Spec.ClusterIP != corev1.ClusterIPNone {
			t.Errorf("behind %s one address stands for all aggregators", host)
		}
		return
	}
	out, _ := s.ends(t)
	for edge := range out {
		if from, to, at := cut(edge); from == p.app() && strings.Contains(to, "/") && at == port+"/TCP" {
			return
		}
	}
	t.Errorf("%s is nobody's name, and no policy lets %s out to it", address, p.name)
}

// The programs accept the ConfigMaps and the environment, and these fit the pods.
func TestConfigurations(t *testing.T) {
	eachPod(t, func(t *testing.T, s set, p pod) {
		c := p.spec.Containers[0]
		if len(c.Args) != 1 || !strings.HasPrefix(c.Args[0], "--config=") {
			if slices.Contains([]string{"aggregator", "teacher", "student"}, p.app()) {
				t.Errorf("the arguments are %q", c.Args)
			}
			return
		}
		path := strings.TrimPrefix(c.Args[0], "--config=")
		if want := "/" + p.app(); len(c.Command) != 1 || c.Command[0] != want {
			t.Errorf("%s runs %q", p.name, c.Command)
		}
		file := s.configFile(t, p, path)
		switch p.app() {
		case "aggregator":
			s.checkAggregator(t, p, file)
		case "teacher":
			s.checkTeacher(t, p, file)
		case "student":
			s.checkStudent(t, p, file)
		}
	})
}

func (s set) checkAggregator(t *testing.T, p pod, file string) {
	c := p.spec.Containers[0]
	names := map[string]bool{}
	for i, ip := range []string{"10.1.2.3", "fd00::7"} {
		name := fmt.Sprintf("aggregator-7d9c5b6f-x%d", i)
		facts := map[string]string{factName: name, factIP: ip}
		environment(t, c, facts)
		most := float64(c.Resources.Limits.Memory().Value())
		if n, err := strconv.ParseFloat(expand(t, c, facts)["GOMEMLIMIT"], 64); err != nil || n < 0.9*most ||
			n > 0.99*most {
			t.Errorf("GOMEMLIMIT is %v bytes (%v), and the limit %v: want a little less", n, err, most)
		}
		config, err := aggregator.LoadConfig(file)
		testkit.Must(t, err)
		names[config.Name] = true
		if config.Advertise != net.JoinHostPort(ip, "7443") && config.Advertise != "["+ip+"]:7443" {
			t.Errorf("%s says that it listens at %s", ip, config.Advertise)
		}
		if config.AuditLog != "" {
			writable(t, c, config.AuditLog)
			if !strings.Contains(config.AuditLog, name) {
				t.Errorf("several aggregators write to %s", config.AuditLog)
			}
		}
		listens(t, c, "listen", config.Listen, "grpc")
		listens(t, c, "http.listen", config.HTTP.Listen, "http")
		readable(t, c, config.TLS.CA, config.TLS.Cert, config.TLS.Key, config.Etcd.CA, config.Etcd.Cert,
			config.Etcd.Key)
		grace(t, p, config.Drain)
		for _, endpoint := range config.Etcd.Endpoints {
			at, err := url.Parse(endpoint)
			testkit.Must(t, err)
			pod, service, _ := strings.Cut(at.Hostname(), ".")
			if at.Scheme != "https" || at.Port() != "2379" ||
				find[*corev1.Service](s)[service] == nil && !strings.HasSuffix(service, "example.org") {
				t.Errorf("the etcd %s (%s of %s) is not there, or without TLS", endpoint, pod, service)
			}
		}
		for _, teacher := range s.pods() {
			if teacher.app() != "teacher" {
				continue
			}
			raw, err := os.ReadFile(s.configFile(t, teacher, "/etc/conclave/schema.yaml"))
			testkit.Must(t, err)
			if hash := sha256.Sum256(raw); config.Datasets[0].SchemaSHA256 != hex.EncodeToString(hash[:]) {
				t.Errorf("the teachers' schema has the hash %x", hash)
			}
		}
	}
	if len(names) != 2 {
		t.Errorf("two aggregators have the names %v", names)
	}
}

func (s set) checkTeacher(t *testing.T, p pod, file string) {
	c := p.spec.Containers[0]
	nodes, shards := map[string]bool{}, map[string]bool{}
	for i := range 2 {
		environment(t, c, map[string]string{factName: fmt.Sprintf("teacher-%d", i), factIndex: fmt.Sprint(i),
			factIP: "10.0.0.1"})
		config, err := node.LoadConfig(file)
		testkit.Must(t, err)
		nodes[config.Node] = true
		if config.SQL.Set() {
			shards[config.SQL.Query] = true
			readable(t, c, config.SQL.DSNFile)
		} else {
			shards[config.Data] = true
			readable(t, c, config.Data)
			if want := fmt.Sprintf("/shard-%d.csv.gz", i); !strings.HasSuffix(config.Data, want) {
				t.Errorf("pod %d reads %s; conclave shard writes %s", i, config.Data, want)
			}
		}
		readable(t, c, config.Schema, config.TLS.CA, config.TLS.Cert, config.TLS.Key, config.TLS.Revoked)
		writable(t, c, config.State)
		writable(t, c, config.AuditLog)
		listens(t, c, "http.listen", config.HTTP.Listen, "http")
		grace(t, p, config.Drain)
		s.dials(t, p, config.Aggregator, config.ServerName)
		schema, err := partition.LoadSchema(s.configFile(t, p, config.Schema))
		testkit.Must(t, err)
		testkit.Must(t, schema.CheckUnit(config.Unit))
	}
	if len(nodes) != 2 || len(shards) != 2 {
		t.Errorf("two pods are the nodes %v with %v", nodes, shards)
	}
	if !slices.ContainsFunc(p.claims, func(v corev1.PersistentVolumeClaim) bool { return v.Name == "state" }) {
		t.Error("the pods have no state of their own")
	}
}

func (s set) checkStudent(t *testing.T, p pod, file string) {
	c := p.spec.Containers[0]
	environment(t, c, nil)
	config, err := student.LoadConfig(file)
	testkit.Must(t, err)
	s.dials(t, p, config.Aggregator, config.ServerName)
	writable(t, c, config.Out)
	readable(t, c, config.TLS.CA, config.TLS.Cert, config.TLS.Key, config.TLS.Revoked)
	if config.Patience < 5*time.Minute {
		t.Errorf("the %s fails when the aggregators need more than %v", p.kind, config.Patience)
	}
	if config.Queue != p.lasts() {
		t.Errorf("a %s with queue: %v", p.kind, config.Queue)
	}
	if config.Queue {
		if p.kind != "StatefulSet" {
			t.Error("its pods do not keep the names by which they come back to their runs")
		}
		return
	}
	readable(t, c, config.Run)
	spec, err := runfile.Load(s.configFile(t, p, config.Run))
	testkit.Must(t, err)
	raw, err := os.ReadFile(spec.Schema)
	testkit.Must(t, err)
	for _, teacher := range s.pods() {
		if teacher.app() != "teacher" {
			continue
		}
		theirs, err := os.ReadFile(s.configFile(t, teacher, "/etc/conclave/schema.yaml"))
		testkit.Must(t, err)
		if string(theirs) != string(raw) {
			t.Error("the run's schema is not that of the teachers")
		}
	}
}

// The schema of the manifests is the example's, so that the example's data works.
func TestTheSchemaIsTheExamples(t *testing.T) {
	want, err := os.ReadFile("../../examples/flchain/schema.yaml")
	testkit.Must(t, err)
	for _, path := range []string{"base/teacher/schema.yaml", "overlays/run/schema.yaml"} {
		got, err := os.ReadFile(filepath.Join(manifests, path))
		testkit.Must(t, err)
		if string(got) != string(want) {
			t.Errorf("%s is not examples/flchain/schema.yaml", path)
		}
	}
}

// Files that repeat others differ only in their purpose.
func TestConfigurationsOfComponents(t *testing.T) {
	for path, c := range map[string]struct{ of, but string }{
		"components/external-etcd/aggregator.yaml": {"base/aggregator/aggregator.yaml", `^(  endpoints:|  prefix:)`},
		"components/postgres/teacher.yaml":         {"base/teacher/teacher.yaml", `^(sql:|  dsn_file:|  timeout:)`},
	} {
		lines := func(path string) []string {
			raw, err := os.ReadFile(filepath.Join(manifests, path))
			testkit.Must(t, err)
			var kept []string
			for line := range strings.Lines(string(raw)) {
				if !regexp.MustCompile(c.but).MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
					kept = append(kept, line)
				}
			}
			return kept
		}
		if got, want := lines(path), lines(c.of); !slices.Equal(got, want) {
			t.Errorf("%s is not %s with %s", path, c.of, c.but)
		}
	}
}

// The documented commands make certificates for every dialled name.
func TestDocumentedCertificates(t *testing.T) {
	raw, err := os.ReadFile("../../docs/kubernetes-install.md")
	testkit.Must(t, err)
	issued := map[string][]string{}
	command := regexp.MustCompile(`certs issue --dir (\S+) --role (\S+) --name (\S+)(?: \\\n\s+)?(?: --hosts (\S+))?`)
	for _, m := range command.FindAllStringSubmatch(string(raw), -1) {
		dir := t.TempDir()
		testkit.Must(t, authority.Create(dir))
		var hosts []string
		if m[4] != "" {
			hosts = strings.Split(m[4], ",")
		}
		if err := authority.Issue(dir, certs.Role(m[2]), m[3], hosts, time.Hour); err != nil {
			t.Errorf("%q: %v", m[0], err)
		}
		issued[filepath.Base(m[1])+"/"+m[2]+"/"+m[3]] = hosts
	}
	for who, names := range map[string][]string{
		"certs/aggregator/aggregator": {"aggregator"},
		"certs/node/clinic":           nil,
		"certs/student/lab":           nil,
		"etcd-certs/aggregator/etcd":  {"etcd-0.etcd", "etcd-1.etcd", "etcd-2.etcd", "etcd-client"},
		"etcd-certs/student/ledger":   nil,
		"etcd-certs/student/backup":   nil,
	} {
		hosts, ok := issued[who]
		if !ok {
			t.Errorf("docs/kubernetes-install.md issues no certificate for %s", who)
		}
		for _, name := range names {
			if !slices.Contains(hosts, name) {
				t.Errorf("the certificate for %s lacks %s", who, name)
			}
		}
	}
}
