package deploy

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// eachPod runs a test for every pod of every set.
func eachPod(t *testing.T, test func(*testing.T, set, pod)) {
	eachSet(t, func(t *testing.T, s set) {
		for _, p := range s.pods() {
			t.Run(p.kind+" "+p.name, func(t *testing.T) { test(t, s, p) })
		}
	})
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// TestPodsAreConfined requires of every pod the restricted standard of Kubernetes, a read-only root, no token of the
// cluster, and bounded memory.
func TestPodsAreConfined(t *testing.T) {
	eachPod(t, func(t *testing.T, _ set, p pod) {
		s := p.spec.SecurityContext
		if s == nil || !isTrue(s.RunAsNonRoot) || s.RunAsUser == nil || *s.RunAsUser == 0 || s.RunAsGroup == nil ||
			*s.RunAsGroup == 0 || s.FSGroup == nil || s.SeccompProfile == nil ||
			s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the pod's security context is %+v", s)
		}
		if !isFalse(p.spec.AutomountServiceAccountToken) || !isFalse(p.spec.EnableServiceLinks) {
			t.Error("the pod gets a token, or variables of services")
		}
		if p.spec.HostNetwork || p.spec.HostPID || p.spec.HostIPC || p.spec.ServiceAccountName != "" {
			t.Error("the pod shares something with its machine, or has an account")
		}
		for _, v := range p.spec.Volumes {
			if v.ConfigMap == nil && v.Secret == nil && v.PersistentVolumeClaim == nil {
				t.Errorf("volume %s is of another kind", v.Name)
			}
			if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440) {
				t.Errorf("secret %s is not for the pod's group alone", v.Name)
			}
		}
		for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
			s := c.SecurityContext
			if s == nil || !isFalse(s.AllowPrivilegeEscalation) || !isTrue(s.ReadOnlyRootFilesystem) ||
				s.RunAsUser != nil || s.Privileged != nil || s.Capabilities == nil || len(s.Capabilities.Add) > 0 ||
				!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("container %s: the security context is %+v", c.Name, s)
			}
			r := c.Resources
			for _, of := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
				corev1.ResourceEphemeralStorage} {
				if least, most := r.Requests[of], r.Limits[of]; least.IsZero() || least.Cmp(most) > 0 {
					t.Errorf("container %s: of %s it requests %s, and the limit is %s", c.Name, of, &least, &most)
				}
			}
			if len(c.Command) == 0 {
				t.Errorf("container %s leaves its command to the image", c.Name)
			}
		}
	})
}

// Every server has probes for start, liveness and readiness, at a port that it opens.
func TestProbes(t *testing.T) {
	paths := map[string][3]string{"etcd": {"/readyz", "/livez", "/readyz"}, "": {"/healthz", "/healthz", "/readyz"}}
	eachPod(t, func(t *testing.T, _ set, p pod) {
		for _, c := range p.spec.Containers {
			probes := [3]*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe}
			want, ok := paths[p.app()]
			if !ok {
				want = paths[""]
			}
			for i, probe := range probes {
				if !p.serves() {
					if probe != nil {
						t.Errorf("%s ends by itself or answers nobody, and is probed", c.Name)
					}
					continue
				}
				if probe == nil || probe.HTTPGet == nil {
					t.Fatalf("container %s lacks probe %d", c.Name, i)
				}
				if portOf(c, probe.HTTPGet.Port) == 0 || probe.HTTPGet.Path != want[i] {
					t.Errorf("container %s: probe %d asks %+v", c.Name, i, probe.HTTPGet)
				}
			}
		}
	})
}

// portOf is the number of a container's port by name or number; 0 if it opens none.
func portOf(c corev1.Container, port intstr.IntOrString) int32 {
	for _, open := range c.Ports {
		if port.Type == intstr.String && open.Name == port.StrVal ||
			port.Type == intstr.Int && open.ContainerPort == port.IntVal {
			return open.ContainerPort
		}
	}
	return 0
}

// created are the Secrets and claims that operators make themselves, according to the documentation.
func created(t *testing.T, command string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, page := range []string{"kubernetes-install.md", "data-database.md"} {
		raw, err := os.ReadFile("../../docs/" + page)
		testkit.Must(t, err)
		for _, m := range regexp.MustCompile(command).FindAllStringSubmatch(string(raw), -1) {
			names[m[1]] = true
		}
	}
	if len(names) == 0 {
		t.Fatalf("the pages have no %q", command)
	}
	return names
}

// Mounts have volumes, volumes have sources, and variables are defined before they are used.
func TestPodsFindWhatTheyNeed(t *testing.T) {
	secrets := created(t, `(?:create secret generic|(?m:^ +secret)) ([a-z-]+)`)
	claims := created(t, `PersistentVolumeClaim\n +metadata: \{name: ([a-z-]+)`)
	eachPod(t, func(t *testing.T, s set, p pod) {
		configs, volumes := find[*corev1.ConfigMap](s), find[*corev1.PersistentVolumeClaim](s)
		claims := maps.Clone(claims)
		for _, other := range s.pods() { // a StatefulSet makes the claims of its pods
			for _, claim := range other.claims {
				for i := range 3 {
					claims[fmt.Sprintf("%s-%s-%d", claim.Name, other.name, i)] = true
				}
			}
		}
		known := map[string]bool{}
		for _, c := range p.claims {
			known[c.Name] = true
		}
		for _, v := range p.spec.Volumes {
			known[v.Name] = true
			switch {
			case v.ConfigMap != nil && configs[v.ConfigMap.Name] == nil:
				t.Errorf("the ConfigMap %s is not there", v.ConfigMap.Name)
			case v.Secret != nil && !secrets[v.Secret.SecretName]:
				t.Errorf("no page creates the Secret %s", v.Secret.SecretName)
			case v.PersistentVolumeClaim != nil && volumes[v.PersistentVolumeClaim.ClaimName] == nil &&
				!claims[v.PersistentVolumeClaim.ClaimName]:
				t.Errorf("nobody makes the claim %s", v.PersistentVolumeClaim.ClaimName)
			}
		}
		used := map[string]bool{}
		for _, c := range p.spec.Containers {
			for _, m := range c.VolumeMounts {
				used[m.Name] = true
				if !known[m.Name] || m.SubPath != "" {
					t.Errorf("the mount %s has no volume, or sees no change of it", m.MountPath)
				}
			}
			set := map[string]bool{}
			for _, e := range c.Env {
				for _, name := range variables(e.Value) {
					if !set[name] {
						t.Errorf("%s is used in %s before it is set", name, e.Name)
					}
				}
				set[e.Name] = true
			}
			for _, a := range slices.Concat(c.Command, c.Args) {
				for _, name := range variables(a) {
					if !set[name] {
						t.Errorf("%s is used in %q and not set", name, a)
					}
				}
			}
		}
		for name := range known {
			if !used[name] {
				t.Errorf("the volume %s is mounted nowhere", name)
			}
		}
	})
}

var variable = regexp.MustCompile(`\$\(([A-Z_]+)\)`)

// variables are the names that Kubernetes expands in a text.
func variables(text string) []string {
	var names []string
	for _, m := range variable.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// selects returns the pods that a selector matches.
func (s set) selects(t *testing.T, selector *metav1.LabelSelector) []pod {
	t.Helper()
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	testkit.Must(t, err)
	var selected []pod
	for _, p := range s.pods() {
		if matcher.Matches(labels.Set(p.labels)) {
			selected = append(selected, p)
		}
	}
	return selected
}

// Workloads select their own pods, services find pods that open their ports, and a machine can be drained of every
// server.
func TestSelectors(t *testing.T) {
	eachSet(t, func(t *testing.T, s set) {
		services := find[*corev1.Service](s)
		guarded := map[string]int{}
		for _, p := range s.pods() {
			if p.selector == nil {
				continue
			}
			if found := s.selects(t, p.selector); len(found) != 1 || found[0].name != p.name {
				t.Errorf("%s selects %d workloads", p.name, len(found))
			}
		}
		for name, service := range services {
			found := s.selects(t, &metav1.LabelSelector{MatchLabels: service.Spec.Selector})
			if len(found) != 1 || !found[0].lasts() || len(service.Spec.Ports) > 0 && !found[0].serves() {
				t.Errorf("the service %s stands for %d workloads", name, len(found))
				continue
			}
			for _, port := range service.Spec.Ports {
				if n := portOf(found[0].spec.Containers[0], port.TargetPort); n != port.Port {
					t.Errorf("the service %s has port %d for %v, which is %d", name, port.Port, port.TargetPort, n)
				}
			}
		}
		for name, stateful := range find[*appsv1.StatefulSet](s) {
			service := services[stateful.Spec.ServiceName]
			if service == nil || service.Spec.ClusterIP != corev1.ClusterIPNone ||
				!service.Spec.PublishNotReadyAddresses {
				t.Errorf("%s has no service that gives names to its pods", name)
			}
			keep := stateful.Spec.PersistentVolumeClaimRetentionPolicy
			if keep == nil || keep.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType ||
				keep.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
				t.Errorf("the volumes of %s may be deleted with it", name)
			}
		}
		for name, budget := range find[*policyv1.PodDisruptionBudget](s) {
			most := budget.Spec.MaxUnavailable
			if most == nil || most.String() == "0" || most.String() == "0%" {
				t.Errorf("%s lets no machine be drained: %v", name, most)
			}
			for _, p := range s.selects(t, budget.Spec.Selector) {
				guarded[p.name]++
			}
		}
		for _, p := range s.pods() {
			if p.lasts() && guarded[p.name] != 1 {
				t.Errorf("%s has %d disruption budgets", p.name, guarded[p.name])
			}
		}
	})
}
