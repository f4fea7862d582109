package deploy

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// peerNames names the peers of a rule: pods of the set by app, or the outside.
func (s set) peerNames(t *testing.T, peer networkingv1.NetworkPolicyPeer) []string {
	t.Helper()
	switch {
	case peer.IPBlock != nil:
		return []string{peer.IPBlock.CIDR}
	case peer.NamespaceSelector != nil:
		return []string{"namespace " + peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]}
	}
	var names []string
	for _, p := range s.selects(t, peer.PodSelector) {
		names = append(names, p.app())
	}
	return names
}

// ends are the half edges that policies open, as "from -> to port": the allowed traffic out of pods and into them.
func (s set) ends(t *testing.T) (out, in map[string]bool) {
	t.Helper()
	out, in = map[string]bool{}, map[string]bool{}
	add := func(half map[string]bool, policy string, peers []networkingv1.NetworkPolicyPeer,
		ports []networkingv1.NetworkPolicyPort, edge func(peer string, port networkingv1.NetworkPolicyPort) string) {
		// An empty list would mean everybody, or every port.
		if len(peers) == 0 || len(ports) == 0 {
			t.Errorf("the policy %s opens a port to everybody or all ports to somebody", policy)
		}
		for _, peer := range peers {
			for _, name := range s.peerNames(t, peer) {
				for _, port := range ports {
					if port.Port == nil || port.Port.IntVal == 0 || port.EndPort != nil || port.Protocol == nil {
						t.Errorf("the policy %s names no single port: %+v", policy, port)
						continue
					}
					half[edge(name, port)] = true
				}
			}
		}
	}
	for name, policy := range find[*networkingv1.NetworkPolicy](s) {
		for _, p := range s.selects(t, &policy.Spec.PodSelector) {
			for _, rule := range policy.Spec.Egress {
				add(out, name, rule.To, rule.Ports, func(peer string, port networkingv1.NetworkPolicyPort) string {
					return fmt.Sprintf("%s -> %s %d/%s", p.app(), peer, port.Port.IntVal, *port.Protocol)
				})
			}
			for _, rule := range policy.Spec.Ingress {
				add(in, name, rule.From, rule.Ports, func(peer string, port networkingv1.NetworkPolicyPort) string {
					return fmt.Sprintf("%s -> %s %d/%s", peer, p.app(), port.Port.IntVal, *port.Protocol)
				})
			}
		}
	}
	return out, in
}

// TestNobodyIsReachedUnlessAPolicySaysSo requires a policy that selects every pod in both directions and opens
// nothing.
func TestNobodyIsReachedUnlessAPolicySaysSo(t *testing.T) {
	eachSet(t, func(t *testing.T, s set) {
		deny := find[*networkingv1.NetworkPolicy](s)["deny-all"]
		if deny == nil {
			t.Fatal("there is no deny-all")
		}
		both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		if len(deny.Spec.Ingress)+len(deny.Spec.Egress) > 0 || !slices.Equal(deny.Spec.PolicyTypes, both) {
			t.Errorf("deny-all is %+v", deny.Spec)
		}
		if selected := s.selects(t, &deny.Spec.PodSelector); len(selected) != len(s.pods()) || len(selected) == 0 {
			t.Errorf("deny-all selects %d of %d pods", len(selected), len(s.pods()))
		}
	})
}

// inside are the edges of a whole cluster, without DNS and monitoring.
var inside = []string{
	"aggregator -> aggregator 7443/TCP", // a standby checks whether the leader listens
	"aggregator -> etcd 2379/TCP",
	"etcd -> etcd 2380/TCP",
	"student -> aggregator 7443/TCP",
	"teacher -> aggregator 7443/TCP",
}

var monitored = []string{
	"namespace monitoring -> aggregator 9443/TCP", "namespace monitoring -> etcd 2381/TCP",
	"namespace monitoring -> teacher 9443/TCP",
}

// The edges are exactly these. An edge between two pods is open at both ends, at a port that the pod opens.
func TestEdges(t *testing.T) {
	for name, want := range map[string][]string{
		"small":             inside,
		"thousand-teachers": slices.Concat(inside, monitored, []string{"etcd-backup -> etcd 2379/TCP"}),
		"coordinator": {
			"192.0.2.0/24 -> aggregator 7443/TCP",
			"aggregator -> aggregator 7443/TCP", "aggregator -> etcd 2379/TCP", "etcd -> etcd 2380/TCP",
			"etcd-backup -> etcd 2379/TCP",
		},
		"site": {"teacher -> 192.0.2.0/24 7443/TCP"},
		"components": {
			"192.0.2.0/24 -> aggregator 7443/TCP", monitored[0], monitored[2],
			"aggregator -> aggregator 7443/TCP", "aggregator -> 192.0.2.0/24 2379/TCP",
			"student -> aggregator 7443/TCP", "teacher -> aggregator 7443/TCP", "teacher -> 192.0.2.0/24 5432/TCP",
		},
		"restore": {"aggregator -> aggregator 7443/TCP", "aggregator -> etcd 2379/TCP", "etcd -> etcd 2380/TCP",
			"etcd-backup -> etcd 2379/TCP", "ledger-restore -> etcd 2379/TCP"},
		"transfer": {},
	} {
		var s set
		for _, one := range sets(t) {
			if one.name == name {
				s = one
			}
		}
		t.Run(name, func(t *testing.T) {
			out, in := s.ends(t)
			apps := map[string]pod{}
			for _, p := range s.pods() {
				apps[p.app()] = p
			}
			got := map[string]bool{}
			for edge := range in {
				from, to, port := cut(edge)
				if _, pod := apps[from]; pod && !out[edge] {
					t.Errorf("%s is let in and not out", edge)
				}
				opened := 0
				for _, p := range apps[to].spec.Containers[0].Ports {
					if fmt.Sprintf("%d/TCP", p.ContainerPort) == port && (p.Protocol == "" ||
						p.Protocol == corev1.ProtocolTCP) {
						opened++
					}
				}
				if opened != 1 {
					t.Errorf("%s: the pod opens no such port", edge)
				}
				got[edge] = true
			}
			for edge := range out {
				from, to, _ := cut(edge)
				if _, pod := apps[to]; pod && !in[edge] {
					t.Errorf("%s is let out and not in", edge)
				}
				if to == "namespace kube-system" {
					continue
				}
				if _, pod := apps[from]; !pod {
					t.Errorf("%s begins nowhere", edge)
				}
				got[edge] = true
			}
			for app := range apps {
				for _, protocol := range []string{"UDP", "TCP"} {
					if !out[app+" -> namespace kube-system 53/"+protocol] {
						t.Errorf("%s cannot look up names by %s", app, protocol)
					}
				}
			}
			var edges []string
			for edge := range got {
				edges = append(edges, edge)
			}
			sort.Strings(edges)
			want = slices.Clone(want)
			sort.Strings(want)
			if len(want) == 0 && len(edges) == 0 {
				return
			}
			if diff := cmp.Diff(want, edges); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// cut splits an edge.
func cut(edge string) (from, to, port string) {
	from, rest, _ := strings.Cut(edge, " -> ")
	at := strings.LastIndex(rest, " ")
	return from, rest[:at], rest[at+1:]
}

// A policy that selects no pod has no effect, which would go unnoticed.
func TestEveryPolicySelectsSomebody(t *testing.T) {
	eachSet(t, func(t *testing.T, s set) {
		for name, policy := range find[*networkingv1.NetworkPolicy](s) {
			// This deployment does not monitor an external etcd.
			elsewhere := name == "monitoring-etcd" && find[*appsv1.StatefulSet](s)["etcd"] == nil
			if len(s.selects(t, &policy.Spec.PodSelector)) == 0 && !elsewhere {
				t.Errorf("the policy %s selects nobody", name)
			}
			for _, peer := range peersOf(policy) {
				// Part of a cluster has the edges of the whole.
				if peer.PodSelector != nil && peer.NamespaceSelector == nil &&
					len(s.selects(t, peer.PodSelector)) == 0 && s.whole() {
					t.Errorf("the policy %s names %s, which is nobody", name,
						metav1.FormatLabelSelector(peer.PodSelector))
				}
			}
		}
	})
}

// whole reports whether all roles are in the set.
func (s set) whole() bool {
	apps := map[string]bool{}
	for _, p := range s.pods() {
		apps[p.app()] = true
	}
	return apps["aggregator"] && apps["teacher"] && apps["student"] && apps["etcd"]
}

func peersOf(policy *networkingv1.NetworkPolicy) []networkingv1.NetworkPolicyPeer {
	var peers []networkingv1.NetworkPolicyPeer
	for _, rule := range policy.Spec.Ingress {
		peers = append(peers, rule.From...)
	}
	for _, rule := range policy.Spec.Egress {
		peers = append(peers, rule.To...)
	}
	return peers
}
