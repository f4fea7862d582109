package deploy

import (
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// documentedUsers are the commands in docs/kubernetes-install.md that make etcd's users.
func documentedUsers(t *testing.T) (commands []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/kubernetes-install.md")
	testkit.Must(t, err)
	command := regexp.MustCompile(`(?m)^ +etcd ((?:role|user|auth) .*)$`)
	for _, m := range command.FindAllStringSubmatch(string(raw), -1) {
		commands = append(commands, m[1])
	}
	return commands
}

// secretCerts are the certificates of the Secrets that docs/kubernetes-install.md makes, as AUTHORITY ROLE-NAME.
func secretCerts(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/kubernetes-install.md")
	testkit.Must(t, err)
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +secret (\S+) (\S+) (\S+)$`).FindAllStringSubmatch(string(raw), -1) {
		found[m[1]] = m[2] + " " + m[3]
	}
	return found
}

// secretOfMount is the Secret that contains a path of a pod's container.
func secretOfMount(p pod, path string) string {
	if mount := mountOf(p.spec.Containers[0], path); mount != nil {
		for _, v := range p.spec.Volumes {
			if v.Name == mount.Name && v.Secret != nil {
				return v.Secret.SecretName
			}
		}
	}
	return ""
}

// Members recognize each other by name, every client presents a certificate, and the read-only user cannot write.
func TestEtcdAsksWhoItIs(t *testing.T) {
	member := certs.Identity{Role: certs.RoleAggregator, Name: "etcd"}.Subject().CommonName
	certificates, users := secretCerts(t), documentedUsers(t)
	if certificates["etcd-tls"] != "etcd-certs "+member {
		t.Errorf("the members' certificate is %q", certificates["etcd-tls"])
	}
	eachPod(t, func(t *testing.T, s set, p pod) {
		c := p.spec.Containers[0]
		want := "" // the role of its user
		switch p.app() {
		case "etcd":
			for _, arg := range []string{"--client-cert-auth", "--peer-client-cert-auth",
				"--peer-cert-allowed-cn=" + member, "--enable-grpc-gateway=false", "--tls-min-version=TLS1.3"} {
				if !slices.Contains(c.Args, arg) {
					t.Errorf("etcd is started without %s", arg)
				}
			}
			return
		case "aggregator", "ledger-restore":
			want = "ledger"
		case "etcd-backup":
			want = "backup"
		default:
			for _, v := range p.spec.Volumes {
				if v.Secret != nil && strings.HasPrefix(certificates[v.Secret.SecretName], "etcd-certs ") {
					t.Errorf("%s has a certificate of etcd: %s", p.name, v.Secret.SecretName)
				}
			}
			return
		}
		at := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--config=") })
		if at < 0 {
			t.Fatalf("the arguments are %q", c.Args)
		}
		etcd, err := aggregator.LoadEtcd(s.configFile(t, p, strings.TrimPrefix(c.Args[at], "--config=")))
		testkit.Must(t, err)
		readable(t, c, etcd.CA, etcd.Cert, etcd.Key)
		for _, endpoint := range etcd.Endpoints {
			at, err := url.Parse(endpoint)
			testkit.Must(t, err)
			_, service, inside := strings.Cut(at.Hostname(), ".")
			if !inside {
				service = at.Hostname()
			}
			if at.Scheme != "https" || find[*corev1.Service](s)[service] == nil &&
				!strings.HasSuffix(service, "example.org") {
				t.Errorf("%s is not there, or without TLS", endpoint)
			}
		}
		user, ok := strings.CutPrefix(certificates[secretOfMount(p, etcd.Cert)], "etcd-certs ")
		if !ok || !slices.Contains(users, "user grant-role "+user+" "+want) {
			t.Errorf("%s comes to etcd as %q, which has not the role %s", p.name, user, want)
		}
	})
	rights := map[string]string{"ledger": "readwrite", "backup": "read"}
	for _, command := range users {
		f := strings.Fields(command)
		if f[0] == "role" && f[1] == "grant-permission" {
			if rights[f[2]] != f[3] || f[len(f)-2] != "--prefix" || f[len(f)-1] != "/conclave/" {
				t.Errorf("etcd %s", command)
			}
			delete(rights, f[2])
		}
	}
	if len(rights) > 0 || users[len(users)-1] != "auth enable" {
		t.Errorf("no right is given to %v, or auth is not enabled at the end: %q", rights, users)
	}
	if slices.ContainsFunc(users, func(u string) bool {
		return strings.HasPrefix(u, "user add ") && !strings.HasSuffix(u, " --no-password")
	}) {
		t.Error("a user has a password")
	}
}
