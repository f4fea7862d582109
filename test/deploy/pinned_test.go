package deploy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"github.com/conclave-dp/conclave/internal/version"
)

// others are the images of other projects by tag: operators pin them before they apply the manifests, as
// docs/kubernetes-install.md says.
var others = []string{"gcr.io/etcd-development/etcd:v" + etcdversion.Version, "docker.io/library/busybox:1.37.0"}

// tries are the folders that use a local image by its tag, and bases that are only built as a part.
var tries = []string{"overlays/small", "overlays/run", "overlays/workers", "base", "base/student"}

var byDigest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

// unpinned says what is wrong with an image that is applied unchanged, or "".
func unpinned(image string, try bool) string {
	_, number, _ := strings.Cut(version.Software, " ")
	switch {
	case slices.Contains(others, image) || byDigest.MatchString(image):
		return ""
	case try && image == "conclave:"+number:
		return ""
	case try:
		return "it is neither conclave:" + number + " nor named by a digest"
	}
	return "it has no digest; set digest under images of the kustomization"
}

// Outside of trials every image is named by digest. Images of other projects have the tested tag.
func TestImagesAreNamedByDigest(t *testing.T) {
	for _, root := range roots(t) {
		name, err := filepath.Rel(manifests, root)
		if err != nil {
			t.Fatal(err)
		}
		ours := map[string]bool{}
		for _, p := range (set{name, build(t, root)}).pods() {
			for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
				if wrong := unpinned(c.Image, slices.Contains(tries, name)); wrong != "" {
					t.Errorf("%s: %s has the image %s: %s", name, p.name, c.Image, wrong)
				}
				if c.ImagePullPolicy != "IfNotPresent" {
					t.Errorf("%s: %s is pulled %q", name, p.name, c.ImagePullPolicy)
				}
				if slices.Contains(others, c.Image) {
					t.Logf("%s: %s of %s is not pinned", name, c.Image, p.name)
				} else {
					ours[c.Image] = true
				}
			}
		}
		if len(ours) > 1 {
			t.Errorf("%s: there are several images: %v", name, ours)
		}
	}
	for image, try := range map[string]bool{
		"conclave:latest": true, "registry.example.org/conclave:0.1.0": true, "conclave": true,
		"registry.example.org/conclave@sha256:ab": false, "gcr.io/etcd-development/etcd:v3": false,
		"conclave:" + strings.TrimPrefix(version.Software, "conclave "): false,
	} {
		if unpinned(image, try) == "" {
			t.Errorf("%s is taken (a try: %v)", image, try)
		}
	}
}
