package deploy

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// sources is the Go source of packages, without tests.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var text strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			text.Write(raw)
			return err
		})
		testkit.Must(t, err)
	}
	return text.String()
}

// etcdMetrics are the etcd metrics that alerts use; etcd's documentation lists them.
var etcdMetrics = []string{"etcd_server_has_leader", "etcd_mvcc_db_total_size_in_bytes",
	"etcd_server_quota_backend_bytes"}

// clusterMetrics are those of kube-state-metrics about the CronJob of backups, which alerts use.
var clusterMetrics = []string{"kube_cronjob_status_last_successful_time", "kube_cronjob_created"}

var (
	metricName = regexp.MustCompile(`\b(conclave|etcd|kube)_[a-z_]+`)
	matcher    = regexp.MustCompile(`\{([a-z]+)(=~|!~|!=|=)"([^"]*)"\}`)
	grouping   = regexp.MustCompile(`(?:by|on) \(([a-z, ]+)\)`)
)

// An alert on a metric that nothing exports never fires. Every alert must be documented.
func TestAlerts(t *testing.T) {
	code := sources(t, "../../internal/aggregator", "../../internal/node", "../../internal/monitor")
	document := string(testkit.Read(t, "../../docs/alerts.md")) + string(testkit.Read(t, "../../docs/metrics.md"))
	var rules *monitoringv1.PrometheusRule
	jobs := map[string]*batchv1.CronJob{}
	for _, s := range sets(t) {
		maps.Copy(jobs, find[*batchv1.CronJob](s))
		for _, r := range find[*monitoringv1.PrometheusRule](s) {
			rules = r
		}
	}
	if rules == nil {
		t.Fatal("there are no alerts")
	}
	alerts := map[string]bool{}
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || alerts[rule.Alert] {
				t.Errorf("a rule without a name of its own: %q", rule.Alert)
			}
			alerts[rule.Alert] = true
			if !strings.Contains(document, "| `"+rule.Alert+"` |") {
				t.Errorf("docs/alerts.md does not explain %s", rule.Alert)
			}
			if s := rule.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, s) ||
				rule.Annotations["summary"] == "" {
				t.Errorf("%s: severity %q, summary %q", rule.Alert, s, rule.Annotations["summary"])
			}
			expression := rule.Expr.String()
			names := metricName.FindAllString(expression, -1)
			if len(names) == 0 {
				t.Errorf("%s asks for no metric: %s", rule.Alert, expression)
			}
			for _, name := range names {
				name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
				if slices.Contains(etcdMetrics, name) || slices.Contains(clusterMetrics, name) {
					continue
				}
				if !strings.Contains(code, `"`+name+`"`) {
					t.Errorf("%s: no program exports %s", rule.Alert, name)
				}
				if !strings.Contains(document, "`"+name+"`") {
					t.Errorf("%s: docs/metrics.md does not have %s", rule.Alert, name)
				}
			}
			for _, m := range matcher.FindAllStringSubmatch(expression, -1) {
				if m[1] == "cronjob" {
					if jobs[m[3]] == nil {
						t.Errorf("%s: no overlay has the CronJob %s", rule.Alert, m[3])
					}
					continue
				}
				if m[1] != "job" && !strings.Contains(code, `"`+m[1]+`"`) {
					t.Errorf("%s: no metric has the label %s", rule.Alert, m[1])
				}
				for _, value := range strings.Split(m[3], "|") {
					// gRPC's codes are its own words.
					if m[1] != "job" && m[1] != "code" && !strings.Contains(code, `"`+value+`"`) {
						t.Errorf("%s: nothing is ever labelled %s=%s", rule.Alert, m[1], value)
					}
				}
			}
			for _, m := range grouping.FindAllStringSubmatch(expression, -1) {
				for _, label := range strings.Split(m[1], ", ") {
					// The first two are Prometheus' own, le belongs to histograms.
					if !slices.Contains([]string{"namespace", "instance", "le"}, label) &&
						!strings.Contains(code, `"`+label+`"`) {
						t.Errorf("%s: no metric has the label %s", rule.Alert, label)
					}
				}
			}
		}
	}
	if len(alerts) < 15 {
		t.Errorf("only %d alerts were read", len(alerts))
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Conclave[A-Za-z]+)` \\|").FindAllStringSubmatch(document, -1) {
		if !alerts[m[1]] {
			t.Errorf("docs/alerts.md explains %s, which is no alert", m[1])
		}
	}
}

// Only services that have the port are scraped.
func TestScrapes(t *testing.T) {
	eachSet(t, func(t *testing.T, s set) {
		scraped := map[string]bool{}
		for name, monitor := range find[*monitoringv1.ServiceMonitor](s) {
			selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
			testkit.Must(t, err)
			for _, service := range find[*corev1.Service](s) {
				if !selector.Matches(labels.Set(service.Labels)) {
					continue
				}
				for _, endpoint := range monitor.Spec.Endpoints {
					if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
						return p.Name == endpoint.Port
					}) {
						t.Errorf("%s scrapes the port %s, which the service %s lacks", name, endpoint.Port,
							service.Name)
					}
					if scraped[service.Name] {
						t.Errorf("%s is scraped twice", service.Name)
					}
					scraped[service.Name] = true
				}
			}
		}
		if s.name == "thousand-teachers" && (!scraped["aggregator"] || !scraped["teacher"] || !scraped["etcd"]) {
			t.Errorf("only %v are scraped", scraped)
		}
	})
}
