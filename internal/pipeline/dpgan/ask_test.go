package dpgan

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A round asks for what the options say.
func TestDiscriminatorsAreAskedForAsOptionsSay(t *testing.T) {
	ask := func(text string, change func(*Options)) *pipeline.GradientAsker {
		o := DefaultOptions()
		o.Rate = 0.1
		change(&o)
		schema := partitiontest.Schema(t, text)
		return (&training{o, pipeline.Problem{Encoder: encode.New(schema), Classes: 2}}).gradients(false)
	}
	const dense, convolution = conclavev1.Discriminator_KIND_DENSE, conclavev1.Discriminator_KIND_CONVOLUTION
	const each, told = conclavev1.Discriminator_CLASSES_EACH, conclavev1.Discriminator_CLASSES_TOLD
	a := ask(partitiontest.Wide, func(o *Options) { o.Discriminator.Fourier = 20 })
	spec := a.Spec.Describe()
	if want := (&conclavev1.Discriminator{Kind: dense, Hidden: 128, Classes: 2, ByClass: each, Pieces: true,
		Fourier: 20, Seed: 1}); !proto.Equal(spec, want) {
		t.Errorf("asked for %v, want %v", spec, want)
	}
	if a.Loss != conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN || a.Rate != 0.1 || !(a.Clip > 1) || a.Nothing {
		t.Errorf("loss %v, rate %v, clip %v", a.Loss, a.Rate, a.Clip)
	}
	a = ask(partitiontest.Bars, func(o *Options) {
		o.Discriminator.Kind, o.Discriminator.Classes, o.Clip = "convolution", "told", 0.3
	})
	spec = a.Spec.Describe()
	if want := (&conclavev1.Discriminator{Kind: convolution, Hidden: 16, Layers: 1, Classes: 2, ByClass: told,
		Seed: 1}); spec.Kind != want.Kind || spec.ByClass != told || spec.Hidden != 16 || a.Clip != 0.3 {
		t.Errorf("asked for %v, clip %v", spec, a.Clip)
	}
	for loss, want := range map[Loss]conclavev1.DiscriminatorSum_Loss{
		Logistic: conclavev1.DiscriminatorSum_LOSS_LOGISTIC, Wasserstein: conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN,
		KLWGAN: conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN, // the loss of real records
	} {
		if a := ask(partitiontest.Wide, func(o *Options) { o.Discriminator.Loss = loss }); a.Loss != want {
			t.Errorf("%s is asked for as %v", loss, a.Loss)
		}
	}
	// The fixed-point unit adds little error to a gradient.
	if share := math.Sqrt(1<<17) / pipeline.DiscriminatorBound; share > 0.01 {
		t.Errorf("rounding takes up to %v of a gradient", share)
	}
}
