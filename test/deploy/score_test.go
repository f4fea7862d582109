package deploy

import (
	"bytes"
	"flag"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/conclave-dp/conclave/internal/testkit"
)

var withScore = flag.Bool("kube-score", false, "check the manifests with kube-score, which is fetched and compiled")

// kube-score finds nothing critical. The manifest gives the reason for each ignored check.
func TestKubeScore(t *testing.T) {
	if !*withScore {
		t.Skip("run with -kube-score")
	}
	folders, err := filepath.Glob(filepath.Join(manifests, "overlays/*"))
	testkit.Must(t, err)
	for _, dir := range append(folders, filepath.Join(manifests, "restore"), filepath.Join(manifests, "transfer")) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
			testkit.Must(t, err)
			raw, err := objects.AsYaml()
			testkit.Must(t, err)
			c := exec.CommandContext(t.Context(), "go", "run", "github.com/zegl/kube-score/cmd/kube-score@v1.20.0",
				"score", "--output-format", "ci", "-")
			c.Stdin = bytes.NewReader(raw)
			if out, err := c.CombinedOutput(); err != nil {
				for line := range bytes.Lines(out) {
					if !bytes.HasPrefix(line, []byte("[OK]")) && !bytes.HasPrefix(line, []byte("[SKIPPED]")) {
						t.Errorf("%s", line)
					}
				}
				t.Error(err)
			}
		})
	}
}
