package deploy

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// manifests is the folder of all manifests.
const manifests = "../../deploy/k8s"

// decoder accepts only the types of the manifests, and no unknown fields.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// decode parses the documents of a file.
func decode(t testing.TB, raw []byte) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	documents := yamlutil.NewDocumentDecoder(io.NopCloser(bytes.NewReader(raw)))
	defer documents.Close()
	for {
		document := make([]byte, 1<<20)
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			slices.SortFunc(objects, func(a, b runtime.Object) int { return strings.Compare(title(a), title(b)) })
			return objects
		}
		testkit.Must(t, err)
		object, _, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document[:n])
		}
		objects = append(objects, object)
	}
}

// title is an object's kind and name.
func title(object runtime.Object) string {
	name := "?"
	if o, err := meta.Accessor(object); err == nil {
		name = o.GetName()
	}
	return object.GetObjectKind().GroupVersionKind().Kind + "/" + name
}

// build builds the objects of a kustomization.
func build(t testing.TB, dir string) []runtime.Object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	raw, err := resources.AsYaml()
	testkit.Must(t, err)
	return decode(t, raw)
}

// compose builds a kustomization of bases and components that has no folder.
func compose(t testing.TB, resources []string, components ...string) []runtime.Object {
	t.Helper()
	dir := t.TempDir()
	whole, err := filepath.EvalSymlinks(dir)
	testkit.Must(t, err)
	root, err := filepath.Abs(manifests)
	testkit.Must(t, err)
	var text strings.Builder
	text.WriteString("namespace: conclave\n")
	list := func(field string, folders []string) {
		text.WriteString(field + ":\n")
		for _, f := range folders {
			relative, err := filepath.Rel(whole, filepath.Join(root, f))
			testkit.Must(t, err)
			text.WriteString("  - " + relative + "\n")
		}
	}
	list("resources", resources)
	list("components", components)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text.String()), 0o600))
	return build(t, dir)
}

// settings are the files of the roles' own configuration; all other files are manifests.
var settings = []string{"aggregator.yaml", "teacher.yaml", "student.yaml", "worker.yaml", "run.yaml", "schema.yaml",
	"policy.yaml", "etcd.yaml"}

func TestEveryManifestDecodesStrictly(t *testing.T) {
	files := 0
	err := filepath.WalkDir(manifests, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !strings.HasSuffix(path, ".yaml") {
			t.Errorf("%s is no manifest", path)
		}
		if name := entry.Name(); name == "kustomization.yaml" || slices.Contains(settings, name) {
			return nil
		}
		raw, err := os.ReadFile(path)
		testkit.Must(t, err)
		if len(decode(t, raw)) == 0 {
			t.Errorf("%s holds no object", path)
		}
		files++
		return nil
	})
	testkit.Must(t, err)
	if files < 20 {
		t.Errorf("only %d manifests were found in %s", files, manifests)
	}
	for _, bad := range []string{"spec: {replica: 2}", "spec: {Replicas: 2}", "spec: {replicas: two}",
		"spec: {replicas: 2, replicas: 3}"} {
		if _, _, err := decoder.Decode([]byte("apiVersion: apps/v1\nkind: Deployment\n"+bad), nil, nil); err == nil {
			t.Errorf("the decoder takes %q", bad)
		}
	}
}

// roots are the folders that are built on their own.
func roots(t testing.TB) []string {
	t.Helper()
	overlays, err := filepath.Glob(filepath.Join(manifests, "overlays/*"))
	testkit.Must(t, err)
	if len(overlays) < 5 {
		t.Fatalf("the overlays are %v", overlays)
	}
	return append(overlays, filepath.Join(manifests, "base"), filepath.Join(manifests, "base/student"),
		filepath.Join(manifests, "transfer"), filepath.Join(manifests, "restore"))
}

// kubectl builds the same as the library.
func TestEveryKustomizationBuilds(t *testing.T) {
	kubectl, missing := exec.LookPath("kubectl")
	for _, root := range roots(t) {
		t.Run(filepath.Base(root), func(t *testing.T) {
			objects := build(t, root)
			if len(objects) == 0 {
				t.Error("nothing was built")
			}
			if missing != nil {
				t.Skip("kubectl is not installed: built with the library only")
			}
			var stderr bytes.Buffer
			command := exec.Command(kubectl, "kustomize", root)
			command.Stderr = &stderr
			raw, err := command.Output()
			if err != nil {
				t.Fatalf("kubectl kustomize %s: %v\n%s", root, err, stderr.String())
			}
			if stderr.Len() > 0 {
				t.Errorf("kubectl kustomize warns: %s", stderr.String())
			}
			if diff := cmp.Diff(objects, decode(t, raw)); diff != "" {
				t.Errorf("kubectl builds something else: %s", diff)
			}
		})
	}
}

// set is everything that runs in one namespace.
type set struct {
	name    string
	objects []runtime.Object
}

var (
	builtOnce sync.Once
	built     []set
)

// sets are what operators apply: every overlay with a run, and every component at least once.
func sets(t testing.TB) []set {
	builtOnce.Do(func() { built = buildSets(t) })
	if built == nil {
		t.Fatal("the manifests do not build, see the test that came first")
	}
	return built
}

func buildSets(t testing.TB) []set {
	overlay := func(names ...string) []runtime.Object {
		var objects []runtime.Object
		for _, name := range names {
			objects = append(objects, build(t, filepath.Join(manifests, name))...)
		}
		return objects
	}
	components, err := os.ReadDir(filepath.Join(manifests, "components"))
	testkit.Must(t, err)
	var all []string
	for _, c := range components {
		if c.Name() != "etcd-backup" { // of the etcd that external-etcd removes
			all = append(all, "components/"+c.Name())
		}
	}
	return []set{
		{"small", overlay("overlays/small", "overlays/run", "overlays/workers")},
		{"thousand-teachers", overlay("overlays/thousand-teachers", "overlays/run")},
		{"coordinator", overlay("overlays/coordinator")},
		{"site", overlay("overlays/site")},
		{"components", append(compose(t, []string{"base"}, all...), overlay("overlays/run")...)},
		{"restore", append(compose(t, []string{"base/namespace", "base/etcd", "base/aggregator"},
			"components/etcd-backup"), overlay("restore")...)},
		{"transfer", append(compose(t, []string{"base/namespace"}), overlay("transfer")...)},
	}
}

// pod is a pod template with its context.
type pod struct {
	kind, name string
	labels     map[string]string
	spec       corev1.PodSpec
	claims     []corev1.PersistentVolumeClaim // of a StatefulSet
	selector   *metav1.LabelSelector          // nil if there is none
}

// app is the name by which policies select it.
func (p pod) app() string { return p.labels["app.kubernetes.io/name"] }

// lasts reports whether it runs until it is stopped.
func (p pod) lasts() bool { return p.kind == "Deployment" || p.kind == "StatefulSet" }

// serves reports whether it also answers somebody. A worker of the queue only asks.
func (p pod) serves() bool { return p.lasts() && p.app() != "student" }

func (s set) pods() []pod {
	var pods []pod
	for _, object := range s.objects {
		switch o := object.(type) {
		case *corev1.Pod:
			pods = append(pods, pod{"Pod", o.Name, o.Labels, o.Spec, nil, nil})
		case *appsv1.Deployment:
			pods = append(pods, pod{"Deployment", o.Name, o.Spec.Template.Labels, o.Spec.Template.Spec, nil,
				o.Spec.Selector})
		case *appsv1.StatefulSet:
			pods = append(pods, pod{"StatefulSet", o.Name, o.Spec.Template.Labels, o.Spec.Template.Spec,
				o.Spec.VolumeClaimTemplates, o.Spec.Selector})
		case *batchv1.Job:
			pods = append(pods, pod{"Job", o.Name, o.Spec.Template.Labels, o.Spec.Template.Spec, nil, nil})
		case *batchv1.CronJob:
			template := o.Spec.JobTemplate.Spec.Template
			pods = append(pods, pod{"CronJob", o.Name, template.Labels, template.Spec, nil, nil})
		}
	}
	return pods
}

// find returns the objects of a type, by name.
func find[T metav1.Object](s set) map[string]T {
	found := map[string]T{}
	for _, object := range s.objects {
		if o, ok := object.(T); ok {
			found[o.GetName()] = o
		}
	}
	return found
}

// eachSet runs a test for every set.
func eachSet(t *testing.T, test func(*testing.T, set)) {
	for _, s := range sets(t) {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

// Names are unique in a set, and all objects are in the namespace that denies all.
func TestObjectsAreInOneNamespace(t *testing.T) {
	eachSet(t, func(t *testing.T, s set) {
		seen := map[string]bool{}
		for _, object := range s.objects {
			o, err := meta.Accessor(object)
			testkit.Must(t, err)
			if seen[title(object)] {
				t.Errorf("%s is listed twice", title(object))
			}
			seen[title(object)] = true
			if _, is := object.(*corev1.Namespace); !is && o.GetNamespace() != "conclave" {
				t.Errorf("%s is in the namespace %q", title(object), o.GetNamespace())
			}
		}
		namespaces := find[*corev1.Namespace](s)
		if n, ok := namespaces["conclave"]; !ok || len(namespaces) != 1 ||
			n.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Errorf("the namespaces are %v", namespaces)
		}
	})
}
